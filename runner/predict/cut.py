"""A simulated probe that is cut where a server's would be: its queue grows without end. Pure."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from runner.boots.probe import Gauge
from runner.experiment.levels import Load
from runner.load import Timeline

_LOOK_NS: Final = 200_000_000
"""How often a client counts its requests in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Went:
    """The requests of a load as they went, and why it was cut; None where it was not."""

    timelines: Sequence[Timeline]
    overload: str | None = None


def cut_short(load: Load, timelines: Sequence[Timeline], began_ns: int) -> Went:
    """Return a load's requests up to where a client would end it for overload.

    Args:
        load: what was asked; only a probe in open loop is ever cut.
        timelines: all requests, simulated to their end.
        began_ns: when its first arrival could come.
    """
    sent_ns = sorted(one.sent_ns for one in timelines)
    ended_ns = sorted(one.ended_ns for one in timelines)
    moment_ns = began_ns
    gauge = Gauge(load, now_s=lambda: moment_ns / 1e9)
    last_ns = max(ended_ns, default=began_ns)
    for moment_ns in itertools.takewhile(
        lambda at_ns: at_ns <= last_ns, itertools.count(began_ns, _LOOK_NS)
    ):
        gauge.note(bisect.bisect(sent_ns, moment_ns) - bisect.bisect(ended_ns, moment_ns))
        if said := gauge.overload():
            kept = [_until(one, moment_ns) for one in timelines if one.sent_ns <= moment_ns]
            return Went(timelines=kept, overload=said)
    return Went(timelines=timelines)


def _until(one: Timeline, cut_ns: int) -> Timeline:
    """Return a request as it was at a moment: cancelled unless it had ended."""
    if one.ended_ns <= cut_ns:
        return one
    came = bisect.bisect(one.chunk_ns, cut_ns)
    return replace(
        one,
        first_ns=one.first_ns if came else None,
        last_ns=one.chunk_ns[came - 1] if came else None,
        ended_ns=cut_ns,
        chunk_ns=one.chunk_ns[:came],
        chunk_tokens=one.chunk_tokens[:came],
        output_tokens=None,
        cached_tokens=one.cached_tokens if came else None,
        outcome="cancelled",
    )
