"""A classic BPF program that lets one server port through (linux/filter.h). Pure."""

from __future__ import annotations

from typing import Final

Instruction = tuple[int, int, int, int]

_LOADS: Final = {"byte": 0x30, "half": 0x28, "half at x": 0x48, "word": 0x20, "ip header": 0xB1}
_JUMPS: Final = {"equal": 0x15, "any bit": 0x45, "always": 0x05}
_SHIFT_RIGHT, _AND, _RETURN = 0x74, 0x54, 0x06
_PACKET_TYPE: Final = 0xFFFFF000 + 4
"""SKF_AD_OFF + SKF_AD_PKTTYPE: an ancillary load of the packet's direction."""
_OUTGOING: Final = 4
_WHOLE: Final = 0x40000


def program(port: int, *, loopback: bool, one_in: int = 1) -> list[Instruction]:
    """Return a program over network headers that accepts TCP to or from a port.

    Args:
        port: the server's.
        loopback: drop outgoing packets, which come again as incoming ones.
        one_in: accept one in so many client ports, by their bits.

    Raises:
        ValueError: `one_in` is no power of two.
    """
    if one_in < 1 or one_in & (one_in - 1):
        raise ValueError(f"one_in must be a power of two, not {one_in}")
    lines: list[tuple[str, int, str, str]] = [
        *([("word", _PACKET_TYPE, "", ""), ("equal", _OUTGOING, "drop", "")] if loopback else []),
        ("byte", 0, "", ""),
        ("shift right", 4, "", ""),
        ("equal", 4, "v4", ""),
        ("equal", 6, "v6", "drop"),
        ("v4:", 0, "", ""),
        ("byte", 9, "", ""),
        ("equal", 6, "", "drop"),
        ("half", 6, "", ""),
        ("any bit", 0x1FFF, "drop", ""),
        ("ip header", 0, "", ""),
        *_ports("half at x", 0, port, "4"),
        ("v6:", 0, "", ""),
        ("byte", 6, "", ""),
        ("equal", 6, "", "drop"),
        *_ports("half", 40, port, "6"),
        ("sample:", 0, "", ""),
        ("shift right", 1, "", ""),
        ("and", one_in - 1, "", ""),
        ("equal", 0, "", "drop"),
        ("return", _WHOLE, "", ""),
        ("drop:", 0, "", ""),
        ("return", 0, "", ""),
    ]
    return _assembled(lines)


def _ports(load: str, at: int, port: int, name: str) -> list[tuple[str, int, str, str]]:
    """Leave the client's port in the accumulator when the other one is the server's."""
    return [
        (load, at, "", ""),
        ("equal", port, "", f"to{name}"),
        (load, at + 2, "", ""),
        ("always", 0, "sample", ""),
        (f"to{name}:", 0, "", ""),
        (load, at + 2, "", ""),
        ("equal", port, "", "drop"),
        (load, at, "", ""),
        ("always", 0, "sample", ""),
    ]


def _assembled(lines: list[tuple[str, int, str, str]]) -> list[Instruction]:
    places: dict[str, int] = {}
    count = 0
    for word, *_ in lines:
        if word.endswith(":"):
            places[word[:-1]] = count
        else:
            count += 1
    made: list[Instruction] = []
    for word, value, true, false in lines:
        if word.endswith(":"):
            continue
        here = len(made) + 1
        hops = [places[label] - here if label else 0 for label in (true, false)]
        if word == "always":
            made.append((_JUMPS[word], 0, 0, hops[0]))
        elif word in _JUMPS:
            made.append((_JUMPS[word], hops[0], hops[1], value))
        else:
            codes = {**_LOADS, "shift right": _SHIFT_RIGHT, "and": _AND, "return": _RETURN}
            made.append((codes[word], 0, 0, value))
    return made
