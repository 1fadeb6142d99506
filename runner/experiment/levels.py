"""From `[[loads]]` to single loads: one workload at one level, requests counted. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from runner import workloads
from runner.boots.search import Range, requests_for
from runner.experiment import LoadKeys, PerStream, Requests

LevelKind = Literal["concurrency", "rate_per_s", "speed", "burst"]
_LETTERS: Final = {"concurrency": "c", "rate_per_s": "r", "speed": "x", "burst": "b"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One workload at one level.

    Attributes:
        load: its id, `random@c8` (8 in flight), `random@r2.5` (2.5 arrivals per second),
            `trace@x2` (its own times, twice as fast), `burst@b16` (16 at one moment),
            `random@search`, or `random@r2.5#3` for probe 3 of such a search.
        workload: a file of `runner.workloads`.
        spec: the workload's own keys.
        level_kind: what the level counts.
        level: requests in flight, arrivals per second (infinity: all at once), how fast its own
            times run, or requests at one moment; of a search the lowest.
        requests: how many are sent; None when time ends the window.
        warmup_requests: how many are sent before the window.
        duration_s: length of the window; None when the requests end it.
        repeats: how often it runs in one boot.
        keys: the section it comes from.
        probe: its number within its search; None for anything but a probe.
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
    probe: int | None = None

    @property
    def asked(self) -> dict[str, Any]:
        """Return what decides the load's work: however it was written, the same work is equal."""
        beside = {"warmup", *_LETTERS, *(self.keys.model_extra or {})}
        beside |= {"search", "requests"} if self.keys.search is None else set()
        beside |= {key for key in ("ramp", "max_in_flight") if getattr(self.keys, key) is None}
        own = {"load", "level_kind", "level", "requests", "warmup_requests"}
        contents = workloads.get(self.workload).contents(self.spec)
        return {
            **self.keys.model_dump(mode="json", exclude=beside),
            **{name: getattr(self, name) for name in sorted(own)},
            "spec": self.spec.model_dump(mode="json"),
            **({"contents": contents} if contents else {}),
        }

    @property
    def in_flight(self) -> int | None:
        """Return the requests held in flight, None in open loop."""
        return int(self.level) if self.level_kind == "concurrency" else None

    @property
    def range(self) -> Range | None:
        """Return where a search looks; None for any other load."""
        search = self.keys.search
        if search is None or self.probe is not None:
            return None
        return Range(
            low=search.span.low,
            high=search.span.high,
            within_ratio=search.within_ratio,
            whole=self.level_kind == "concurrency",
        )

    def at(self, level: float, probe: int) -> Load:
        """Return a probe of this search at a level."""
        letter = _LETTERS[self.level_kind]
        name = self.keys.name or self.keys.workload
        streams = int(level) if self.level_kind == "concurrency" else 1
        return replace(
            self,
            load=f"{name}@{letter}{level:.4g}#{probe}",
            level=level,
            requests=_requests(self.keys, streams),
            warmup_requests=_warmup(self.keys, level, streams),
            probe=probe,
        )


def loads_of(keys: LoadKeys) -> Iterator[Load]:
    """Yield the loads of one section, one for each level, in the order written."""
    model = workloads.get(keys.workload).spec
    kind, levels = _levels(keys)
    for load, level in zip(load_ids(keys), levels, strict=True):
        streams = int(level) if kind == "concurrency" else 1
        yield Load(
            load=load,
            workload=keys.workload,
            spec=model.model_validate(own_keys(keys, level)),
            level_kind=kind,
            level=level,
            requests=_requests(keys, streams),
            warmup_requests=_warmup(keys, level, streams),
            duration_s=keys.duration_s,
            repeats=keys.repeats,
            keys=keys,
        )


def own_keys(keys: LoadKeys, level: float | None = None) -> dict[str, Any]:
    """Return the workload's own keys, with those that the level gives: whose times, how many."""
    given: dict[str, Any] = {"times": "own" if keys.speed is not None else "level"}
    if keys.burst is not None:
        given["size"] = _levels(keys)[1][0] if level is None else level
    known = workloads.get(keys.workload).spec.model_fields
    return {**{name: given[name] for name in given if name in known}, **(keys.model_extra or {})}


def load_ids(keys: LoadKeys) -> list[str]:
    """Return the ids of a section's loads, `name@c8` for each level; a search is one load."""
    if keys.search is not None:
        return [f"{keys.name or keys.workload}@search"]
    kind, levels = _levels(keys)
    letter = _LETTERS[kind]
    return [f"{keys.name or keys.workload}@{letter}{_spelled(level)}" for level in levels]


def _spelled(level: float) -> str:
    """Return a level with every digit that tells it from another, `2.5` or `64`."""
    return str(int(level)) if float(level).is_integer() and level < 1e15 else repr(level)


def _levels(keys: LoadKeys) -> tuple[LevelKind, tuple[float, ...]]:
    if keys.search is not None:
        by_streams = keys.search.concurrency is not None
        return "concurrency" if by_streams else "rate_per_s", (keys.search.span.low,)
    kinds: tuple[LevelKind, ...] = ("concurrency", "rate_per_s", "speed", "burst")
    for kind in kinds:
        level = getattr(keys, kind)
        if level is not None:
            written = level if isinstance(level, tuple) else (level,)
            return kind, tuple(map(float, written)) if "inf" in written else written
    return "rate_per_s", ()


def _requests(keys: LoadKeys, streams: int) -> int | None:
    """Return how many requests a window holds; a search without a number takes what it needs."""
    asked = keys.requests
    if isinstance(asked, Requests):
        return max(asked.per_stream * streams, asked.at_least)
    if asked is None and keys.search is not None:
        return max(requests_for(keys.search.slo.quantile), 2 * streams)
    return asked


def _warmup(keys: LoadKeys, level: float, streams: int) -> int:
    """Return how many requests come before the window; at a searched rate for a time of their own.

    A search's window opens upon arrivals that go on, so that it shows the steady state.
    """
    if keys.search is not None and keys.search.rate_per_s is not None:
        return max(1, math.ceil(level * keys.search.settle_s))
    return keys.warmup.per_stream * streams if isinstance(keys.warmup, PerStream) else keys.warmup
