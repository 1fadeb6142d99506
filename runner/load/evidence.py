"""From what workers and parsers report to windows and proof."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from runner.load import Target
from runner.load.census import Census, Steady, mean_in_flight, steady_window
from runner.load.crew import Member
from runner.load.lags import Lags
from runner.load.proof import Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The window of a load and its steady part, in CLOCK_MONOTONIC nanoseconds."""

    opened_ns: int
    closed_ns: int
    steady: Steady | None


def windows_of(
    found: Census, in_flight: int | None, duration_s: float | None, origin_ns: int
) -> Windows:
    """Cut the windows: by the requests in closed loop, by the schedule in open loop."""
    opened_ns = origin_ns if in_flight is None else found.opened_ns or origin_ns
    closed_ns = max(found.last_ended_ns, opened_ns)
    if duration_s is not None:
        closed_ns = opened_ns + round(duration_s * 1e9)
    if in_flight is not None:
        steady = steady_window(found.sent_ns, found.ended_ns, in_flight, opened_ns, closed_ns)
    else:
        to_ns = min(closed_ns, max(found.last_sent_ns, opened_ns))
        mean = mean_in_flight(found.sent_ns, found.ended_ns, opened_ns, to_ns)
        steady = Steady(from_ns=opened_ns, to_ns=to_ns, mean_in_flight=mean)
    return Windows(opened_ns=opened_ns, closed_ns=closed_ns, steady=steady)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What `drive` was asked, as far as the proof repeats it."""

    target: Target
    in_flight: int | None
    max_in_flight: int | None
    cpus: tuple[int, ...]


def proof_of(found: Census, windows: Windows, crew: Sequence[Member], asked: Asked) -> Proof:
    """Put the proof together."""
    reports = [member.reports() for member in crew]
    workers, parsers = [one for one, _ in reports], [other for _, other in reports]
    firsts = [report["first_sent_ns"] for report in workers if report.get("first_sent_ns")]
    stamps = sorted(found.stamps)
    cpu_s = tuple(report.get("cpu_ns", 0) / 1e9 for report in workers)
    return Proof(
        **_sends(found, windows, workers, asked),
        **_reads(workers, parsers),
        cpu_s=cpu_s,
        cpu_per_token_s=sum(cpu_s) / found.tokens_received if found.tokens_received else None,
        parse_cpu_s=_total(parsers, "cpu_ns") / 1e9,
        tokens_by_chunks=found.tokens_by_chunks,
        tokens_by_usage=found.tokens_by_usage,
        input_mismatches=_total(parsers, "input_mismatches"),
        connections=_total(workers, "connections"),
        start_s=(min(firsts) - crew[0].started_ns) / 1e9 if firsts else None,
        stamp="mixed" if len(stamps) > 1 else (stamps or ["user"])[0],
        workers=len(crew),
        cpus=asked.cpus,
        way=asked.target.way,
    )


def _sends(
    found: Census, windows: Windows, workers: Sequence[dict[str, Any]], asked: Asked
) -> dict[str, Any]:
    """Return what the proof says of requests in flight and of their sending."""
    closed_loop = asked.in_flight is not None
    send_lag = _merged(workers, "turnaround") if closed_loop else found.send_lag
    drawn_per_s, sent_per_s = _rates(found)
    off = abs(sent_per_s / drawn_per_s - 1) if drawn_per_s and sent_per_s else None
    return {
        "asked_in_flight": asked.in_flight,
        "max_in_flight": asked.max_in_flight,
        "held_in_flight_ratio": _held(found, windows, asked.in_flight),
        "drawn_per_s": drawn_per_s,
        "sent_per_s": sent_per_s,
        "off_schedule_ratio": off,
        **_quantiles("send_lag", send_lag),
        "sending_p99_s": _merged(workers, "sending").quantile_s(0.99),
    }


def _reads(workers: Sequence[dict[str, Any]], parsers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the proof says of reading and of the stamps."""
    loop, doubt = _merged(workers, "loop_delay"), _merged(parsers, "doubt")
    exact = _total(parsers, "exact_chunks")
    clock_s = max((report.get("clock_error_ns", 0) for report in workers), default=0) / 1e9
    return {
        **_quantiles("client_lag", _merged(parsers, "lag")),
        **_quantiles("loop_delay", loop),
        "reads": _total(parsers, "reads"),
        "received_bytes": _total(parsers, "bytes"),
        "several_chunks_ratio": _ratio(_total(parsers, "several"), _total(parsers, "token_reads")),
        "unstamped_ratio": _ratio(_total(parsers, "unstamped"), _total(parsers, "reads")),
        "remaining_error_p50_s": remaining_error_s(0.5, exact, doubt, loop, clock_s),
        "remaining_error_p99_s": remaining_error_s(0.99, exact, doubt, loop, clock_s),
        "clock_error_s": clock_s,
        "clock_steps": _total(workers, "clock_steps"),
    }


def _quantiles(name: str, lags: Lags) -> dict[str, float | None]:
    return {
        f"{name}_p50_s": lags.quantile_s(0.5),
        f"{name}_p99_s": lags.quantile_s(0.99),
        f"{name}_max_s": lags.largest_s(),
    }


def remaining_error_s(
    share: float, exact: int, doubt: Lags, loop_delay: Lags, clock_error_s: float
) -> float | None:
    """Return the error left in chunk times that `share` of them do not exceed.

    The spans and the loop's delay are added quantile by quantile, as if they always met: their sum
    is at most that.

    Args:
        share: quantile wanted.
        exact: chunks whose own kernel stamp is known.
        doubt: spans in which the other chunks must have come.
        loop_delay: how late the loop may have woken to see them.
        clock_error_s: error of every kernel stamp.
    """
    others = doubt.counts.total()
    if not exact + others:
        return None
    if share * (exact + others) <= exact:
        return clock_error_s
    within = (share * (exact + others) - exact) / others
    late_s = loop_delay.quantile_s(within) or 0.0
    return (doubt.quantile_s(within) or 0.0) + late_s + clock_error_s


def _held(found: Census, windows: Windows, in_flight: int | None) -> float | None:
    if in_flight is None:
        return None
    if windows.steady is not None:
        return windows.steady.mean_in_flight / in_flight
    opened_ns, closed_ns = windows.opened_ns, windows.closed_ns
    return mean_in_flight(found.sent_ns, found.ended_ns, opened_ns, closed_ns) / in_flight


def _rates(found: Census) -> tuple[float | None, float | None]:
    """Return arrivals per second as drawn and as sent, each over its own span."""
    sent_ns = found.last_sent_ns - (found.opened_ns or 0)
    sent = (found.sent - 1) / sent_ns * 1e9 if found.sent > 1 and sent_ns else None
    if found.first_due_ns is None or found.measured < 2:
        return None, sent
    drawn_ns = found.last_due_ns - found.first_due_ns
    return (found.measured - 1) / drawn_ns * 1e9 if drawn_ns else None, sent


def _merged(reports: Iterable[dict[str, Any]], name: str) -> Lags:
    merged = Lags()
    for report in reports:
        if name in report:
            merged.merge(Lags.from_plain(report[name]))
    return merged


def _total(reports: Iterable[dict[str, Any]], name: str) -> int:
    return sum(report.get(name, 0) for report in reports)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
