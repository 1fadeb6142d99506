"""What a client saw against what was so: on the golden server's record or on the wire."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from runner.load import Timeline
from runner.load.spread import Floats, Quantiles, Spread

_NEAR_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Seen minus true, absolute, request by request and gap by gap."""

    ttft: Quantiles
    itl: Quantiles


def compared(seen: Iterable[Timeline], true: Iterable[Timeline]) -> Errors:
    """Compare what a client saw with the truth, request by request, by their numbers."""
    truths = {one.request: one for one in true}
    ttft, itl = Spread(), Spread()
    for one in seen:
        truth = truths.get(one.request)
        if truth is None or not one.chunk_ns or len(one.chunk_ns) != len(truth.chunk_ns):
            continue
        seen_ns, true_ns = _from_start(one), _from_start(truth)
        ttft.add(np.abs(seen_ns[:1] - true_ns[:1]) / 1e9)
        itl.add(np.abs(np.diff(seen_ns) - np.diff(true_ns)) / 1e9)
    return Errors(ttft=ttft.quantiles(), itl=itl.quantiles())


def _from_start(one: Timeline) -> Floats:
    return np.asarray(one.chunk_ns, np.int64).astype(np.float64) - one.sent_ns


def against_wire(seen: Callable[[], Iterable[Timeline]], wire: Sequence[Timeline]) -> Errors:
    """Compare what our own client saw with the wire.

    Args:
        seen: gives the client's timelines, as `Driven.timelines` does; it is asked twice.
        wire: as `runner.load.wire.Tapped.timelines` gives them.
    """
    return compared(seen(), matched(seen(), wire))


def matched(seen: Iterable[Timeline], wire: Iterable[Timeline]) -> Iterator[Timeline]:
    """Yield the timelines of the wire under the numbers of the client's own.

    Two belong together when the client sent just before the wire shows the request, they have as
    many chunks, and the first and last of these lie closest. Requests of the wire that fit no other
    are left out.
    """
    own = sorted(_trace(one) for one in seen if one.sent_ns and one.chunk_ns)
    times = [trace.sent_ns for trace in own]
    taken: set[int] = set()
    for true in wire:
        if not true.chunk_ns:
            continue
        wanted = _trace(true)
        end = bisect.bisect_right(times, wanted.sent_ns)
        start = bisect.bisect_left(times, wanted.sent_ns - _NEAR_NS)
        fitting = [
            trace
            for trace in own[start:end]
            if trace.chunks == wanted.chunks and trace.request not in taken
        ]
        if fitting:
            best = min(fitting, key=wanted.distance_ns)
            taken.add(best.request)
            yield replace(true, request=best.request)


class _Trace(NamedTuple):
    """What little of a timeline tells it from others."""

    sent_ns: int
    first_ns: int
    last_ns: int
    chunks: int
    request: int

    def distance_ns(self, other: _Trace) -> int:
        pairs = zip(self[:3], other[:3], strict=True)
        return sum(abs(one_ns - other_ns) for one_ns, other_ns in pairs)


def _trace(one: Timeline) -> _Trace:
    return _Trace(one.sent_ns, one.chunk_ns[0], one.chunk_ns[-1], len(one.chunk_ns), one.request)
