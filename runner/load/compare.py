"""What a client saw against what was so: on the golden server's record or on the wire."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

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


def matched(seen: Iterable[Timeline], wire: Sequence[Timeline]) -> Iterator[Timeline]:
    """Yield the timelines of the wire under the numbers of the client's own.

    Two belong together when the client sent just before the wire shows the request, and their first
    and last chunks lie closest. Requests of the wire that fit no other are left out.
    """
    own = sorted((one for one in seen if one.sent_ns), key=_sent)
    times = [one.sent_ns for one in own]
    taken: set[int] = set()
    for true in wire:
        end = bisect.bisect_right(times, true.sent_ns)
        start = bisect.bisect_left(times, true.sent_ns - _NEAR_NS)
        fitting = [
            one
            for one in own[start:end]
            if one.request not in taken and len(one.chunk_ns) == len(true.chunk_ns) > 0
        ]
        if fitting:
            best = min(fitting, key=lambda one: _distance_ns(one, true))
            taken.add(best.request)
            yield replace(true, request=best.request)


def _sent(one: Timeline) -> int:
    return one.sent_ns


def _distance_ns(one: Timeline, other: Timeline) -> int:
    first_ns, last_ns = one.chunk_ns[0] - other.chunk_ns[0], one.chunk_ns[-1] - other.chunk_ns[-1]
    return abs(first_ns) + abs(last_ns) + abs(one.sent_ns - other.sent_ns)
