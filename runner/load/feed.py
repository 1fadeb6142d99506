"""How requests travel from the parent to a worker: ready to send, through a pipe, ahead of time."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Final

from runner.load import Ask, Target

_FRAME: Final = struct.Struct("<IIIqqq?")
_ASKED: Final = struct.Struct("<iiHH?")
_READ_BYTES: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class Errand:
    """One request as the worker holds it.

    Attributes:
        number: number within the load.
        wire: the whole request, head and body.
        asked: what was asked, for the reader of the answer; the worker does not look into it.
        due_ns: when it is due after the load begins; negative: as soon as there is room.
        after: number of the request whose answer it waits for, negative for none.
        think_ns: how long after that answer it is due.
        warmup: it belongs to the warm-up.
    """

    number: int
    wire: bytes
    asked: bytes
    due_ns: int
    warmup: bool
    after: int = -1
    think_ns: int = 0


def head_of(target: Target) -> bytes:
    """Return the request head of a target up to the body's length."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    headers = {
        "Host": f"{host}:{target.port}",
        "Accept": "text/event-stream",
        "Content-Type": "application/json",
        **target.headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {v}" for name, v in headers.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a request path or header contains a line break")
    return ("\r\n".join(lines) + "\r\nContent-Length: ").encode("latin-1")


def framed(number: int, ask: Ask, head: bytes, *, warmup: bool) -> bytes:
    """Return the frame that `Feed` reads back as an `Errand`."""
    wire = b"%b%d\r\n\r\n%b" % (head, len(ask.body), ask.body)
    asked = asked_of(ask)
    due_ns = -1 if ask.due_s is None else round(ask.due_s * 1e9)
    after = -1 if ask.after is None else ask.after
    numbers = (number, len(wire), len(asked), due_ns, after, round(ask.think_s * 1e9), warmup)
    return _FRAME.pack(*numbers) + asked + wire


def asked_of(ask: Ask) -> bytes:
    """Pack what the reader of the answer must know of an ask."""
    group, role = ask.group.encode(), ask.role.encode()
    numbers = (-1 if n is None else n for n in (ask.input_tokens, ask.output_tokens))
    lengths = (len(group), len(role))
    return _ASKED.pack(*numbers, *lengths, ask.keep_answer) + group + role


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What `asked_of` packed."""

    input_tokens: int | None
    output_tokens: int | None
    group: str
    role: str
    keep_answer: bool


def asked_from(packed: bytes) -> Asked:
    """Unpack what `asked_of` packed."""
    inputs, outputs, group, _, keep_answer = _ASKED.unpack_from(packed)
    text = packed[_ASKED.size :]
    return Asked(
        input_tokens=None if inputs < 0 else inputs,
        output_tokens=None if outputs < 0 else outputs,
        group=text[:group].decode(),
        role=text[group:].decode(),
        keep_answer=keep_answer,
    )


class Feed:
    """The worker's end of the pipe."""

    __slots__ = ("_buffer", "ended", "fd")

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.ended = False
        self._buffer = bytearray()

    def read(self) -> list[Errand]:
        """Read once without waiting and return the requests that are complete."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return []
        self.ended = not data
        self._buffer += data
        return self._complete()

    def _complete(self) -> list[Errand]:
        found, at = [], 0
        while len(self._buffer) - at >= _FRAME.size:
            number, wire, asked, due_ns, after, think_ns, warmup = _FRAME.unpack_from(
                self._buffer, at
            )
            start = at + _FRAME.size
            end = start + asked + wire
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[start:end])
            found.append(
                Errand(
                    number=number,
                    asked=body[:asked],
                    wire=body[asked:],
                    due_ns=due_ns,
                    warmup=warmup,
                    after=after,
                    think_ns=think_ns,
                )
            )
            at = end
        del self._buffer[:at]
        return found
