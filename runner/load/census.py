"""One pass over the timelines of a load: its windows and the counts its proof needs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from runner.load import Timeline
from runner.load.lags import Lags

_STEADY_RATIO = 0.95


@dataclass(slots=True, kw_only=True)
class Census:
    """What one pass over all timelines found. Times are CLOCK_MONOTONIC nanoseconds.

    Attributes:
        sent_ns: of every request that was sent, the warm-up included.
        ended_ns: of the same requests.
        opened_ns: first send of the window.
        last_sent_ns: last send of the window.
        last_ended_ns: end of the window's last request.
        first_due_ns: first intended time of the window.
        last_due_ns: last intended time of the window.
        measured: requests of the window, sent or not.
        send_lag: sent minus intended, where there is an intended time.
        tokens_by_chunks: of successful requests.
        tokens_by_usage: of successful requests.
        stamps: kinds of stamp met.
    """

    sent_ns: array[int] = field(default_factory=lambda: array("q"))
    ended_ns: array[int] = field(default_factory=lambda: array("q"))
    opened_ns: int | None = None
    last_sent_ns: int = 0
    last_ended_ns: int = 0
    first_due_ns: int | None = None
    last_due_ns: int = 0
    measured: int = 0
    sent: int = 0
    send_lag: Lags = field(default_factory=Lags)
    tokens_by_chunks: int = 0
    tokens_by_usage: int = 0
    tokens_received: int = 0
    stamps: set[str] = field(default_factory=set)


def census(timelines: Iterable[Timeline]) -> Census:
    """Count the timelines of one load."""
    found = Census()
    for timeline in timelines:
        _count(found, timeline)
    return found


def _count(found: Census, timeline: Timeline) -> None:
    tokens = sum(timeline.chunk_tokens)
    found.tokens_received += tokens
    if timeline.chunk_ns:
        found.stamps.add(timeline.stamp)
    if timeline.outcome == "ok":
        found.tokens_by_chunks += tokens
        found.tokens_by_usage += timeline.output_tokens or 0
    if timeline.sent_ns:
        found.sent_ns.append(timeline.sent_ns)
        found.ended_ns.append(timeline.ended_ns)
    if timeline.warmup:
        return
    found.measured += 1
    due_ns, sent_ns = timeline.intended_ns, timeline.sent_ns
    if due_ns is not None:
        found.first_due_ns = min(due_ns, found.first_due_ns or due_ns)
        found.last_due_ns = max(due_ns, found.last_due_ns)
    if sent_ns:
        found.sent += 1
        found.opened_ns = min(sent_ns, found.opened_ns or sent_ns)
        found.last_sent_ns = max(sent_ns, found.last_sent_ns)
        if due_ns is not None:
            found.send_lag.add((sent_ns - due_ns,))
    found.last_ended_ns = max(timeline.ended_ns, found.last_ended_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The part of a window in which the asked number was in flight.

    Attributes:
        from_ns: first moment with at least 95 % of it in flight.
        to_ns: last such moment.
        mean_in_flight: time-weighted mean between the two.
    """

    from_ns: int
    to_ns: int
    mean_in_flight: float


def steady_window(
    sent_ns: array[int], ended_ns: array[int], in_flight: int, opened_ns: int, closed_ns: int
) -> Steady | None:
    """Find the steady part of a closed loop's window; None when it never held 95 %."""
    times, level = _levels(sent_ns, ended_ns)
    from_ns, to_ns = np.maximum(times[:-1], opened_ns), np.minimum(times[1:], closed_ns)
    spans = np.maximum(to_ns - from_ns, 0)
    holds = (level[:-1] >= _STEADY_RATIO * in_flight) & (spans > 0)
    if not holds.any():
        return None
    first, last = int(np.argmax(holds)), len(holds) - 1 - int(np.argmax(holds[::-1]))
    within = slice(first, last + 1)
    total_ns = int(spans[within].sum())
    return Steady(
        from_ns=int(from_ns[first]),
        to_ns=int(to_ns[last]),
        mean_in_flight=float((spans[within] * level[:-1][within]).sum() / total_ns),
    )


def mean_in_flight(
    sent_ns: array[int], ended_ns: array[int], opened_ns: int, closed_ns: int
) -> float:
    """Return the time-weighted mean number in flight over a window."""
    times, level = _levels(sent_ns, ended_ns)
    spans = np.minimum(times[1:], closed_ns) - np.maximum(times[:-1], opened_ns)
    spans = np.maximum(spans, 0)
    return float((spans * level[:-1]).sum() / max(closed_ns - opened_ns, 1))


def _levels(
    sent_ns: array[int], ended_ns: array[int]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the moments at which the number in flight changes, and the number after each."""
    times = np.concatenate([np.asarray(ended_ns, np.int64), np.asarray(sent_ns, np.int64)])
    steps = np.repeat(np.array([-1, 1], np.int64), [len(ended_ns), len(sent_ns)])
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(steps[order])
