"""The first request of a prefix apart from the later ones: what the prefix cache saves in TTFT."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from runner.figures.latency import served, ttft_s
from runner.load import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAndLater:
    """Times to first token of one load.

    Attributes:
        first_s: of the first request of each prefix.
        later_s: of requests sent after the first of their prefix had its first token.
        together_s: of requests sent before that: the prefix may not have been there yet.
        alone_s: of requests that share nothing.
    """

    first_s: tuple[float, ...]
    later_s: tuple[float, ...]
    together_s: tuple[float, ...]
    alone_s: tuple[float, ...]

    @property
    def saved_ratio(self) -> float | None:
        """Return the median of the later ones over that of the first ones; 1 saves nothing."""
        if not self.first_s or not self.later_s:
            return None
        return median(self.later_s) / median(self.first_s)


def first_and_later(timelines: Iterable[Timeline]) -> FirstAndLater:
    """Split the TTFT of a `shared_prefix` (or `multi_turn`) load by what the cache could hold."""
    listed = [one for one in timelines if served(one)]
    answered_ns = {one.group: one.first_ns for one in listed if one.role == "first"}
    kinds: dict[str, list[float]] = {"first": [], "later": [], "together": [], "alone": []}
    for one in sorted(listed, key=lambda one: one.request):
        ttft = ttft_s(one)
        if ttft is not None:
            kinds[_kind(one, answered_ns)].append(ttft)
    return FirstAndLater(
        first_s=tuple(kinds["first"]),
        later_s=tuple(kinds["later"]),
        together_s=tuple(kinds["together"]),
        alone_s=tuple(kinds["alone"]),
    )


def _kind(timeline: Timeline, answered_ns: dict[str, int | None]) -> str:
    if timeline.role == "later":
        there_ns = answered_ns.get(timeline.group)
        return "together" if there_ns is None or timeline.sent_ns < there_ns else "later"
    return "first" if timeline.role == "first" else "alone"
