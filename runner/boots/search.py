"""The highest level that meets an SLO: which level to probe next, and when to stop. Pure.

Bracketing, then bisection: from the lowest level up by a factor until a level misses, then between
the highest level that met and the lowest that missed, at their geometric mean. A probe that
misses ends the climb: what lies above it is never asked again, so noise cannot widen the bracket.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What every request, or nearly every one, must keep; None asks nothing.

    Attributes:
        ttft_p99_s: 99 % of requests have their first token by then.
        tpot_p99_s: 99 % of requests have no longer time per output token.
        itl_p99_s: 99 % of gaps are no longer.
        e2e_p99_s: 99 % of requests are done by then.
        goodput_ratio: share of all requests, failed ones too, that succeed within the limits.
    """

    ttft_p99_s: float | None = None
    tpot_p99_s: float | None = None
    itl_p99_s: float | None = None
    e2e_p99_s: float | None = None
    goodput_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Where to look, and how closely.

    Attributes:
        low: lowest level, probed first.
        high: highest level worth asking.
        within_ratio: stop when the lowest miss is at most so much above the highest met level.
        whole: levels are whole numbers (concurrency); else any (rate).
        factor: step of the climb.
    """

    low: float
    high: float
    within_ratio: float = 0.05
    whole: bool = False
    factor: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One load that was tried."""

    level: float
    met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """Probe this level next."""

    level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The search has ended.

    Attributes:
        level: highest level that met the SLO; None when even the lowest missed.
        missed: lowest level that missed; None when even the highest met.
        why: `found`, `below_range` (even the lowest missed), `above_range` (the highest met), or
            `unknown` (a probe could not tell, so the search was given up).
    """

    level: float | None
    missed: float | None
    why: Literal["found", "below_range", "above_range", "unknown"]


def step(probes: Sequence[Probe], within: Range) -> Next | Answer:
    """Return the next level to probe, or the answer.

    Args:
        probes: what was tried so far on this boot, in any order.
        within: where to look.
    """
    met, missed = _bracket(probes)
    if met is None:
        if missed is not None and missed <= within.low:
            return Answer(level=None, missed=missed, why="below_range")
        return Next(level=within.low)
    if missed is None:
        if met >= within.high:
            return Answer(level=met, missed=None, why="above_range")
        return Next(level=_climbed(met, within))
    between = _between(met, missed, within)
    return Answer(level=met, missed=missed, why="found") if between is None else Next(level=between)


def given_up(probes: Sequence[Probe]) -> Answer:
    """Return what is known after a probe that could not tell."""
    met, missed = _bracket(probes)
    return Answer(level=met, missed=missed, why="unknown")


def _bracket(probes: Sequence[Probe]) -> tuple[float | None, float | None]:
    """Return the highest level that met below the lowest that missed, and that one."""
    missed = min((p.level for p in probes if not p.met), default=None)
    reached = [p.level for p in probes if p.met and (missed is None or p.level < missed)]
    return max(reached, default=None), missed


def _climbed(met: float, within: Range) -> float:
    climbed = met * within.factor
    if within.whole:
        climbed = max(met + 1, math.floor(climbed))
    return min(climbed, within.high)


def _between(met: float, missed: float, within: Range) -> float | None:
    """Return a level strictly inside the bracket; None when it is close enough."""
    if missed <= met * (1 + within.within_ratio):
        return None
    middle = math.sqrt(met * missed)
    if within.whole:
        middle = min(max(round(middle), math.floor(met) + 1), math.ceil(missed) - 1)
    return middle if met < middle < missed else None


def most_probes(within: Range) -> int:
    """Return how many probes a search takes at most: what a plan must reckon with."""
    levels = [within.low]
    while levels[-1] < within.high:
        levels.append(_climbed(levels[-1], within))
    brackets = enumerate(pairwise(levels), start=2)
    return max([len(levels), *(n + _most_between(*pair, within) for n, pair in brackets)])


def _most_between(met: float, missed: float, within: Range) -> int:
    middle = _between(met, missed, within)
    if middle is None:
        return 0
    halves = ((met, middle), (middle, missed))
    return 1 + max(_most_between(low, high, within) for low, high in halves)


def meets(figures: Mapping[str, float | None], slo: Slo) -> bool | None:
    """Tell whether a load's figures meet an SLO; None when a figure that is asked for is missing.

    Args:
        figures: figures by the SLO's own names; a miss is certain even beside a missing one.
        slo: the limits.
    """
    limits = [(field.name, getattr(slo, field.name)) for field in fields(slo)]
    asked = [(name, limit) for name, limit in limits if limit is not None]
    verdicts = [_keeps(name, figures.get(name), limit) for name, limit in asked]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _keeps(name: str, figure: float | None, limit: float) -> bool | None:
    if figure is None:
        return None
    return figure >= limit if name == "goodput_ratio" else figure <= limit


def requests_for(quantile: float, confidence: float = 0.95) -> int:
    """Return the fewest requests whose largest latency exceeds the true quantile so surely.

    With n requests that happens with probability 1 - quantile^n (Wilks 1941, "Determination of
    sample sizes for setting tolerance limits"): 299 requests for a p99 at 95 %. With fewer, a
    sample in which everything was fast says little of the quantile.
    """
    return math.ceil(math.log(1 - confidence) / math.log(quantile))
