"""Goodput: the requests that were served within limits of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runner.figures.latency import e2e_s, tpot_s, ttft_s
from runner.load import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The longest a single request may take, in seconds; None asks nothing."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None


def goodput_ratio(timelines: Iterable[Timeline], limits: Limits) -> float | None:
    """Return the share of the window's requests that succeeded within the limits.

    Failed requests count as not served; a single chunk has no time per output token and keeps any
    limit of it. None of no requests.
    """
    kept = [_keeps(one, limits) for one in timelines if not one.warmup]
    return sum(kept) / len(kept) if kept else None


def _keeps(timeline: Timeline, limits: Limits) -> bool:
    pairs = (
        (ttft_s(timeline), limits.ttft_s),
        (tpot_s(timeline), limits.tpot_s),
        (e2e_s(timeline), limits.e2e_s),
    )
    within = all(took is None or limit is None or took <= limit for took, limit in pairs)
    return timeline.outcome == "ok" and within
