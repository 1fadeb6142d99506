"""One probe of a search: whether its level met the SLO, and whether it was cut as overloaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from runner.doubts import Doubt, doubt, verdict
from runner.experiment.levels import Load
from runner.experiment.searched import SloKeys
from runner.figures import goodput
from runner.load import Timeline
from runner.load.figures import Figures
from runner.load.verdict import Limits
from runner.overload import InFlight, overloaded
from runner.search import Slo, meets

_LOOKS: Final = (0.25, 0.5, 0.75, 0.9)
"""Shares of the window at which overload is looked for: each look may be wrong by chance."""

_OF_THE_SERVER: Final = frozenset({"aborted", "failures", "no_tokens", "off_schedule"})
"""Doubts that a level too high explains: they are the answer of a probe that missed."""


class Gauge:
    """Requests in flight during a probe in open loop, and what they say of overload.

    Attributes:
        said: why the probe is to be cut; None while nothing shows.
    """

    def __init__(self, load: Load, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        search = load.keys.search
        self._rate_per_s = load.level
        self._settle_s = search.settle_s if search is not None else 0.0
        self._window_s = (load.requests or 0) / load.level
        self._open = load.probe is not None and load.in_flight is None
        self._samples: list[InFlight] = []
        self._looks = list(_LOOKS)
        self._began_s: float | None = None
        self.said: str | None = None

    def note(self, flying: int) -> None:
        """Take a count of requests in flight."""
        if not self._open:
            return
        now_s = self._now_s()
        self._began_s = now_s if self._began_s is None else self._began_s
        self._samples.append(InFlight(at_s=now_s - self._began_s, requests=flying))

    def overload(self) -> str | None:
        """Return why the probe is to be cut, None where nothing shows yet."""
        if self._open and self.said is None and self._is_time():
            grows = overloaded(self._samples, self._rate_per_s, self._settle_s)
            self.said = self._sentence() if grows else None
        return self.said

    def _is_time(self) -> bool:
        """Tell whether one more of the few looks is due."""
        passed_s = self._samples[-1].at_s - self._settle_s if self._samples else 0.0
        due = [share for share in self._looks if passed_s >= share * self._window_s]
        self._looks = self._looks[len(due) :]
        return bool(due)

    def _sentence(self) -> str:
        late = [one.requests for one in self._samples if one.at_s >= self._settle_s]
        return (
            f"overloaded at {self._rate_per_s:.4g} requests per second: in flight grew from"
            f" {late[0]} to {late[-1]} within {self._samples[-1].at_s - self._settle_s:.1f} s"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A probe as it went.

    Attributes:
        figures: of its window.
        timelines: its requests, as often as they are asked for.
        doubts: what is doubtful about it as a load.
        limits: what a load must keep to be believed.
        error_s: how uncertain the time of 1 % of its chunks is; None where nobody knows.
        overload: its queue grew, so that it had no steady state; None where it did not.
    """

    figures: Figures
    timelines: Callable[[], Iterable[Timeline]]
    doubts: Sequence[Doubt]
    limits: Limits
    error_s: float | None
    overload: str | None


def judged(load: Load, tried: Tried) -> tuple[bool | None, list[Doubt]]:
    """Return whether a probe met its SLO, None where nobody can tell, and its doubts.

    What a level too high explains (failures, an early end) is no doubt of a probe that missed. An
    error of the client is held against the limits of the SLO, for a probe shows nothing but them.
    """
    search = load.keys.search
    if search is None:
        return None, [*tried.doubts]
    slo = search.slo
    believed = [_against(slo, entry, tried) for entry in tried.doubts]
    others = [entry for entry in believed if entry.name not in _OF_THE_SERVER]
    met = _met(slo, tried, others)
    kept = others if met is False else believed
    if tried.overload is not None:
        kept.append(doubt("overloaded", load.load, tried.overload))
    return met, kept


def _against(slo: SloKeys, entry: Doubt, tried: Tried) -> Doubt:
    """Return a doubt of the client's accuracy as a note where it is far under every limit."""
    if entry.name != "client_error" or tried.error_s is None:
        return entry
    least_s = min(limit for limit in _limits_s(slo) if limit is not None)
    small = tried.error_s <= tried.limits.error_ratio * least_s
    return replace(entry, severity="note") if small else entry


def _met(slo: SloKeys, tried: Tried, others: Sequence[Doubt]) -> bool | None:
    found = tried.figures
    failed = found.requests - found.ok
    if tried.overload is not None:
        return False
    if slo.goodput_ratio is None and failed > tried.limits.failed_ratio * found.requests:
        return False
    if verdict(others) == "void":
        return None
    figures = {
        "ttft_p99_s": found.ttft.p99_s,
        "tpot_p99_s": found.tpot.p99_s,
        "itl_p99_s": found.itl.p99_s,
        "e2e_p99_s": found.e2e.p99_s,
        "goodput_ratio": goodput.goodput_ratio(tried.timelines(), _of_requests(slo)),
    }
    return meets(figures, slo_of(slo))


def slo_of(keys: SloKeys) -> Slo:
    """Return the limits of a file, all in seconds."""
    return Slo(
        ttft_p99_s=keys.ttft_p99_s,
        tpot_p99_s=_seconds(keys.tpot_p99_ms),
        itl_p99_s=_seconds(keys.itl_p99_ms),
        e2e_p99_s=keys.e2e_p99_s,
        goodput_ratio=keys.goodput_ratio,
    )


def _of_requests(keys: SloKeys) -> goodput.Limits:
    return goodput.Limits(ttft_s=keys.ttft_s, tpot_s=_seconds(keys.tpot_ms), e2e_s=keys.e2e_s)


def _limits_s(keys: SloKeys) -> tuple[float | None, ...]:
    """Return every limit of a time."""
    asked, singly = slo_of(keys), _of_requests(keys)
    of_quantiles = (asked.ttft_p99_s, asked.tpot_p99_s, asked.itl_p99_s, asked.e2e_p99_s)
    return (*of_quantiles, singly.ttft_s, singly.tpot_s, singly.e2e_s)


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else value_ms / 1e3
