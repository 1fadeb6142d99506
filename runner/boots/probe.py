"""One probe of a search: whether its level met the SLO, and whether it was cut as overloaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from runner.boots.overload import InFlight, overloaded
from runner.boots.search import Slo, meets
from runner.doubts import Doubt, doubt, verdict
from runner.experiment.levels import Load
from runner.experiment.searched import Search, SloKeys
from runner.figures import goodput
from runner.load import Timeline
from runner.load.figures import Figures
from runner.load.proof import Proof
from runner.load.verdict import Limits

_LOOKS: Final = (0.25, 0.5, 0.75, 0.9)
"""Shares of the window at which overload is looked for: each look may be wrong by chance."""

_OF_THE_SERVER: Final = frozenset({"aborted", "failures", "no_tokens", "off_schedule"})
"""Doubts that a level too high explains: they are the answer of a probe that missed."""

_OF_THE_CLIENT: Final = frozenset({"client_error", "off_schedule"})
"""Doubts that a probe holds against what it is asked, not against the figures of a load."""


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
        proof: of the client's accuracy.
        overload: its queue grew, so that it had no steady state; None where it did not.
    """

    figures: Figures
    timelines: Callable[[], Iterable[Timeline]]
    doubts: Sequence[Doubt]
    limits: Limits
    proof: Proof
    overload: str | None


def judged(load: Load, tried: Tried) -> tuple[bool | None, list[Doubt]]:
    """Return whether a probe met its SLO, None where nobody can tell, and its doubts.

    What a level too high explains (failures, an early end) is no doubt of a probe that missed. The
    client's errors are held against the SLO and the bracket, for a probe shows nothing but them.
    None is void: no table shows the figures of a probe, and one that cannot be judged is repeated.
    """
    search = load.keys.search
    if search is None:
        return None, [*tried.doubts]
    others = [one for one in tried.doubts if one.name not in _OF_THE_SERVER | _OF_THE_CLIENT]
    met = _met(search, tried, others)
    hidden = _OF_THE_SERVER if met is False else frozenset[str]()
    kept = [_weighed(one, met) for one in tried.doubts if one.name not in hidden]
    if met is None:
        said = f"its figures cannot tell whether {search.slo.told} was met"
        kept.append(doubt("unjudged", load.load, said))
    if tried.overload is not None:
        kept.append(doubt("overloaded", load.load, tried.overload))
    return met, kept


def _weighed(entry: Doubt, met: bool | None) -> Doubt:
    """Return a doubt as it weighs on a probe; the client's is a note where it could tell."""
    if met is not None and entry.name in _OF_THE_CLIENT:
        return replace(entry, severity="note")
    return replace(entry, severity="suspect") if entry.severity == "void" else entry


def _met(search: Search, tried: Tried, others: Sequence[Doubt]) -> bool | None:
    found, slo = tried.figures, search.slo
    failed = found.requests - found.ok
    if tried.overload is not None:
        return False
    if slo.goodput_ratio is None and failed > tried.limits.failed_ratio * found.requests:
        return False
    if verdict(others) == "void" or (tried.proof.off_schedule_ratio or 0) > search.within_ratio:
        return None
    figures = {
        "ttft_p99_s": found.ttft.p99_s,
        "tpot_p99_s": found.tpot.p99_s,
        "itl_p99_s": found.itl.p99_s,
        "e2e_p99_s": found.e2e.p99_s,
        "goodput_ratio": goodput.goodput_ratio(tried.timelines(), _of_requests(slo)),
    }
    met = meets(figures, slo_of(slo))
    return met if _is_sure(slo, tried, met=met) else None


def _is_sure(slo: SloKeys, tried: Tried, *, met: bool | None) -> bool:
    """Tell whether the client's errors leave the answer as it is.

    Errors under a tenth of every limit do. A client that sends or reads late only lengthens what
    counts from the due time, so that limits of those that were met are met for certain.
    """
    singly, asked = _of_requests(slo), slo_of(slo)
    of_gaps = (asked.tpot_p99_s, asked.itl_p99_s, singly.tpot_s)
    of_waits = (asked.ttft_p99_s, asked.e2e_p99_s, singly.ttft_s, singly.e2e_s)
    limits_s = [limit for limit in (*of_gaps, *of_waits) if limit is not None]
    errors_s = (tried.proof.remaining_error_p99_s or 0.0, tried.proof.send_lag_p99_s or 0.0)
    if max(errors_s) <= tried.limits.error_ratio * min(limits_s):
        return True
    return met is True and not any(limit is not None for limit in of_gaps)


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


def _seconds(value_ms: float | None) -> float | None:
    return None if value_ms is None else value_ms / 1e3
