"""Latencies of single requests, defined as everywhere: TTFT, TPOT, end to end, gaps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from runner.load import Timeline


def began_ns(timeline: Timeline) -> int:
    """Return when a request's clock starts: its due time in open loop, its send in closed loop."""
    return timeline.sent_ns if timeline.intended_ns is None else timeline.intended_ns


def ttft_s(timeline: Timeline) -> float | None:
    """Return the time to the first chunk that carries a token; None when none came."""
    if timeline.first_ns is None:
        return None
    return (timeline.first_ns - began_ns(timeline)) / 1e9


def e2e_s(timeline: Timeline) -> float | None:
    """Return the time to the last chunk that carries a token; None when none came."""
    if timeline.last_ns is None:
        return None
    return (timeline.last_ns - began_ns(timeline)) / 1e9


def tpot_s(timeline: Timeline) -> float | None:
    """Return (last - first) / (output tokens - tokens of the first chunk); None for one chunk."""
    tokens = sum(timeline.chunk_tokens[1:])
    if timeline.first_ns is None or timeline.last_ns is None or not tokens:
        return None
    return (timeline.last_ns - timeline.first_ns) / 1e9 / tokens


def gaps_ns(timeline: Timeline) -> Iterator[tuple[int, int]]:
    """Yield each gap between chunks that carry tokens, as its beginning and end."""
    return pairwise(timeline.chunk_ns)


def served(timeline: Timeline) -> bool:
    """Tell whether a request belongs to the window and succeeded."""
    return timeline.outcome == "ok" and not timeline.warmup
