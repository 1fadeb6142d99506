"""What `--simulate JSON` may ask: the GPU, the boot, and faults on demand."""

from __future__ import annotations

import dataclasses
import difflib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulate:
    """How to simulate.

    Attributes:
        gpu: name of a GPU profile, or the path of its TOML file.
        boot: which life of this server this is, from 0; None draws one that no seed repeats.
        night: which night it is, from 0.
        seed: what boots and nights are drawn from.
        speed: how many simulated seconds pass in one.
        startup_s: seconds from start to ready; None takes the profile's (divided by `speed`).
        kv_tokens: KV capacity of each boot in turn, the last for all that follow; empty computes
            it from memory.
        cold: the compile cache is empty; None: it is at boot 0.
        version: the engine release whose log it prints; None for the newest known.
        model: what `/v1/models` names, where it must differ from what was asked.
    """

    gpu: str = "h100-80gb"
    boot: int | None = None
    night: int = 0
    seed: int = 0
    speed: float = 1.0
    startup_s: float | None = 1.0
    kv_tokens: tuple[int, ...] = ()
    cold: bool | None = None
    version: str | None = None
    model: str | None = None


def read(text: str) -> Simulate:
    """Return the options of a JSON object.

    Raises:
        ValueError: it is no JSON object, a key is unknown or a value has the wrong type.
    """
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"--simulate takes a JSON object: {error}") from error
    if not isinstance(given, dict):
        raise ValueError("--simulate takes a JSON object")
    return Simulate(**{name: _checked(name, value) for name, value in given.items()})


_FIELDS = {field.name: field for field in dataclasses.fields(Simulate)}


def _checked(name: str, value: Any) -> Any:
    if name not in _FIELDS:
        near = difflib.get_close_matches(name, _FIELDS, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(_FIELDS)}"
        raise ValueError(f"--simulate has no key {name!r}{meant}")
    if isinstance(value, list):
        value = tuple(value)
    elif isinstance(value, int) and not isinstance(value, bool) and name == "kv_tokens":
        value = (value,)
    kinds = str(_FIELDS[name].type)
    if not any(_is(value, kind.strip()) for kind in kinds.split("|")):
        raise ValueError(f"--simulate key {name!r} takes {kinds}, not {json.dumps(value)}")
    return value


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "None":
        return value is None
    if kind.startswith("tuple"):
        return isinstance(value, tuple)
    allowed: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}
    return isinstance(value, allowed.get(kind, ()))
