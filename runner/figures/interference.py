"""What injected prompts did to the streams that were decoding: stalls, and their own TTFT."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from runner.figures.latency import gaps_ns, served, ttft_s
from runner.load import Timeline
from runner.workloads.interference import INJECTED, VICTIM

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One stream that decoded.

    Attributes:
        request: its number within the load.
        largest_inside_s: its largest gap while an injected request was in; None without one.
        largest_outside_s: its largest gap at other times.
        typical_s: median of its gaps at other times.
        stall_s: sum, over the gaps inside, of what each exceeds the typical gap by.
    """

    request: int
    largest_inside_s: float | None
    largest_outside_s: float | None
    typical_s: float | None
    stall_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interference:
    """One load.

    Attributes:
        victims: every stream that was served.
        injected: injected requests that were served.
        overlapped: those that were sent while a victim decoded and got their first token before
            it ended.
        injected_ttft_s: their times to first token, in the order sent.
        void: why the load says nothing about interference; None where it does.
    """

    victims: tuple[Victim, ...]
    injected: int
    overlapped: int
    injected_ttft_s: tuple[float, ...]
    void: str | None

    @property
    def largest_inside_s(self) -> float | None:
        """Return the largest gap of any victim while an injected request was in."""
        found = [v.largest_inside_s for v in self.victims if v.largest_inside_s is not None]
        return max(found, default=None)


def interference(timelines: Iterable[Timeline]) -> Interference:
    """Compare the victims' gaps inside and outside the time in which injected requests were in.

    A request is in from its send to its last token; a gap is inside when it overlaps that.
    """
    listed = [one for one in timelines if served(one)]
    victims = [one for one in listed if one.role == VICTIM]
    injected = sorted((o for o in listed if o.role == INJECTED), key=lambda one: one.sent_ns)
    spans = [(one.sent_ns, one.last_ns or one.ended_ns) for one in injected]
    overlapped = sum(any(_overlap(one, victim) for victim in victims) for one in injected)
    ttfts = (ttft_s(one) for one in injected)
    return Interference(
        victims=tuple(_victim(victim, spans) for victim in victims),
        injected=len(injected),
        overlapped=overlapped,
        injected_ttft_s=tuple(ttft for ttft in ttfts if ttft is not None),
        void=_void(len(victims), len(injected), overlapped),
    )


def _victim(timeline: Timeline, spans: Sequence[Span]) -> Victim:
    inside: list[float] = []
    outside: list[float] = []
    for begin_ns, end_ns in gaps_ns(timeline):
        within = any(begin_ns < to_ns and end_ns > from_ns for from_ns, to_ns in spans)
        (inside if within else outside).append((end_ns - begin_ns) / 1e9)
    typical_s = median(outside) if outside else None
    return Victim(
        request=timeline.request,
        largest_inside_s=max(inside, default=None),
        largest_outside_s=max(outside, default=None),
        typical_s=typical_s,
        stall_s=None if typical_s is None else sum(max(0.0, gap - typical_s) for gap in inside),
    )


def _overlap(injected: Timeline, victim: Timeline) -> bool:
    times = (victim.first_ns, victim.last_ns, injected.first_ns)
    first_ns, last_ns, answered_ns = times
    if first_ns is None or last_ns is None or answered_ns is None:
        return False
    return first_ns <= injected.sent_ns and answered_ns <= last_ns


def _void(victims: int, injected: int, overlapped: int) -> str | None:
    if not victims:
        return "no victim was served"
    if injected and not overlapped:
        return (
            "no injected prompt was prefilled while a victim decoded: the victims ended too early,"
            " or fill every slot (raise victim_output_tokens or max_running)"
        )
    return None
