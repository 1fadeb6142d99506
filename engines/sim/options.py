"""What `--simulate JSON` may ask: the GPU, the boot, and faults on demand."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

PHASES: Final = ("start", "weights", "compile", "profile", "graphs", "serve", "load")


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulate:
    """How to simulate.

    Attributes:
        gpu: name of a GPU profile, or the path of its TOML file.
        boot: which life of this server this is, from 0; None draws one that no seed repeats.
        night: which night it is, from 0.
        seed: what boots and nights are drawn from.
        name: what tells its boots from those of another server of the same night and seed.
        speed: how many simulated seconds pass in one.
        startup_s: seconds from start to ready; None takes the profile's (divided by `speed`).
        kv_tokens: KV capacity of each boot in turn, the last for all that follow; empty computes
            it from memory.
        cold: the compile cache is empty; None: it is at boot 0 and before.
        version: the engine release whose log it prints, 99.0 for one nobody knows yet; None for
            the newest known.
        slow_start_s: further seconds while the weights load.
        crash_at: phase in whose middle it ends, in the engine's own words.
        hang_at: phase in which it stops for good; in `load`, no token comes any more.
        oom_under_load: requests running at which it runs out of memory and ends.
        die_after_requests: requests after which it is killed without a word.
        hang_after_requests: requests after which no token comes any more.
        wrong_model: what `/v1/models` names instead of the model asked.
        zero_tokens: answers end before their first token.
        wrong_answers: every token is another than this model's.
        lost_prefix_cache: the prefix cache is said to be on and never finds anything.
        stuck_flush: the prefix cache cannot be emptied.
        slowdown_ratio: factor on every step's time.
        drift_ratio_per_hour: growth of every step's time in an hour.
        boot_sd_ratio: spread of the steps' time from boot to boot.
        night_sd_ratio: spread of the steps' time from night to night.
        two_valued_ratio: factor on the steps' time of every other boot, drawn by chance.
        echo_environment: the log shows the whole environment.
        orphan_child: a child process outlives it by a minute.
        offline: the runner starts no server and simulates boot and loads without sockets.
    """

    gpu: str = "h100-80gb"
    boot: int | None = None
    night: int = 0
    seed: int = 0
    name: str = ""
    speed: float = 1.0
    startup_s: float | None = 1.0
    kv_tokens: tuple[int, ...] = ()
    cold: bool | None = None
    version: str | None = None
    slow_start_s: float = 0.0
    crash_at: str | None = None
    hang_at: str | None = None
    oom_under_load: int | None = None
    die_after_requests: int | None = None
    hang_after_requests: int | None = None
    wrong_model: str | None = None
    zero_tokens: bool = False
    wrong_answers: bool = False
    lost_prefix_cache: bool = False
    stuck_flush: bool = False
    slowdown_ratio: float = 1.0
    drift_ratio_per_hour: float = 0.0
    boot_sd_ratio: float = 0.0
    night_sd_ratio: float = 0.0
    two_valued_ratio: float = 1.0
    echo_environment: bool = False
    orphan_child: bool = False
    offline: bool = False

    @property
    def is_cold(self) -> bool:
        """Whether this boot finds an empty compile cache."""
        return self.cold if self.cold is not None else (self.boot is not None and self.boot <= 0)


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


def taken_from(argv: Sequence[str]) -> tuple[Simulate, list[str]]:
    """Take our own two flags, `--simulate` and `--speed`, out of an engine's.

    Raises:
        ValueError: what they say is wrong.
    """
    simulate, rest, words = Simulate(), [], list(argv)
    speed: float | None = None
    while words:
        word, equals, value = words.pop(0).partition("=")
        if word not in ("--simulate", "--speed"):
            rest.append(word + equals + value)
            continue
        value = value if equals else words.pop(0) if words else ""
        if word == "--simulate":
            simulate = read(value)
        else:
            speed = float(value)
    return (simulate if speed is None else dataclasses.replace(simulate, speed=speed)), rest


_FIELDS: Final = {field.name: field for field in dataclasses.fields(Simulate)}


def _checked(name: str, value: Any) -> Any:
    if name not in _FIELDS:
        near = difflib.get_close_matches(name, _FIELDS, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(_FIELDS)}"
        raise ValueError(f"--simulate has no key {name!r}{meant}")
    if name == "kv_tokens":
        value = tuple(value) if isinstance(value, list) else (value,)
    kinds = str(_FIELDS[name].type)
    if not any(_is(value, kind.strip()) for kind in kinds.split("|")):
        raise ValueError(f"--simulate key {name!r} takes {kinds}, not {json.dumps(value)}")
    if name in ("crash_at", "hang_at") and value is not None and value not in PHASES:
        raise ValueError(f"--simulate key {name!r} takes one of {', '.join(PHASES)}")
    if name == "speed" and value <= 0:
        raise ValueError("--simulate key 'speed' must be above 0")
    return value


def _is(value: Any, kind: str) -> bool:
    if kind.startswith("tuple"):
        return isinstance(value, tuple) and all(_is(part, "int") for part in value)
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "None":
        return value is None
    allowed: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}
    return isinstance(value, allowed.get(kind, ()))
