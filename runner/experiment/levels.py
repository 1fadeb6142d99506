"""From `[[loads]]` to single loads: one workload at one level, requests counted. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from runner import workloads
from runner.experiment import LoadKeys, PerStream, Requests

LevelKind = Literal["concurrency", "rate_per_s"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One workload at one level.

    Attributes:
        load: its id, `random@c8` (8 in flight) or `random@r2.5` (2.5 arrivals per second).
        workload: a file of `runner.workloads`.
        spec: the workload's own keys.
        level_kind: what the level counts.
        level: requests in flight, or arrivals per second.
        requests: how many are sent; None when time ends the window.
        warmup_requests: how many are sent before the window.
        duration_s: length of the window; None when the requests end it.
        repeats: how often it runs in one boot.
        keys: the section it comes from.
    """

    load: str
    workload: str
    spec: Any
    level_kind: LevelKind
    level: float
    requests: int | None
    warmup_requests: int
    duration_s: float | None
    repeats: int
    keys: LoadKeys

    @property
    def asked(self) -> dict[str, Any]:
        """Return what decides the load's work: however it was written, the same work is equal."""
        beside = {"concurrency", "rate_per_s", "requests", "warmup", *(self.keys.model_extra or {})}
        own = {"load", "level_kind", "level", "requests", "warmup_requests"}
        return {
            **self.keys.model_dump(mode="json", exclude=beside),
            **{name: getattr(self, name) for name in sorted(own)},
            "spec": self.spec.model_dump(mode="json"),
        }

    @property
    def in_flight(self) -> int | None:
        """Return the requests held in flight, None in open loop."""
        return int(self.level) if self.level_kind == "concurrency" else None


def loads_of(keys: LoadKeys) -> Iterator[Load]:
    """Yield the loads of one section, one for each level, in the order written."""
    spec = workloads.get(keys.workload).spec.model_validate(keys.model_extra or {})
    kind, levels = _levels(keys)
    for load, level in zip(load_ids(keys), levels, strict=True):
        streams = int(level) if kind == "concurrency" else 1
        yield Load(
            load=load,
            workload=keys.workload,
            spec=spec,
            level_kind=kind,
            level=level,
            requests=_requests(keys.requests, streams),
            warmup_requests=_warmup(keys.warmup, streams),
            duration_s=keys.duration_s,
            repeats=keys.repeats,
            keys=keys,
        )


def load_ids(keys: LoadKeys) -> list[str]:
    """Return the ids of a section's loads, `name@c8` for each level."""
    kind, levels = _levels(keys)
    letter = "c" if kind == "concurrency" else "r"
    return [f"{keys.name or keys.workload}@{letter}{_spelled(level)}" for level in levels]


def _spelled(level: float) -> str:
    """Return a level with every digit that tells it from another, `2.5` or `64`."""
    return str(int(level)) if float(level).is_integer() and level < 1e15 else repr(level)


def _levels(keys: LoadKeys) -> tuple[LevelKind, tuple[float, ...]]:
    kind: LevelKind = "concurrency" if keys.concurrency is not None else "rate_per_s"
    level = keys.concurrency if keys.concurrency is not None else keys.rate_per_s
    if level is None:
        return kind, ()
    return kind, level if isinstance(level, tuple) else (level,)


def _requests(asked: int | Requests | None, streams: int) -> int | None:
    if isinstance(asked, Requests):
        return max(asked.per_stream * streams, asked.at_least)
    return asked


def _warmup(asked: int | PerStream, streams: int) -> int:
    return asked.per_stream * streams if isinstance(asked, PerStream) else asked
