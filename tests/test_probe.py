"""One probe of a search: cut when its queue grows, and judged by its SLO alone."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from runner.boots.probe import Gauge, Tried, judged
from runner.boots.search import Answer, Next, Probe, step
from runner.doubts import doubt
from runner.experiment import LoadKeys
from runner.experiment.levels import Load, loads_of
from runner.load import Timeline
from runner.load.arrivals import POISSON, Flat, due_times
from runner.load.figures import figures
from runner.load.proof import Proof
from runner.load.verdict import Limits
from runner.stats.interval import Interval, geometric
from runner.stats.queue import open_loop

SERVICE_S, SERVERS = 2.0, 16
CAPACITY_PER_S = SERVERS / SERVICE_S


def searched(**slo: float) -> Load:
    keys = {"workload": "random", "input_tokens": 8, "output_tokens": 8, "requests": 300}
    span = {"low": 1, "high": 64}
    search = {"rate_per_s": span, "slo": slo, "settle_s": 6, "within_ratio": 0.05}
    return next(loads_of(LoadKeys.model_validate({**keys, "search": search})))


def probe(level: float = 8.0, **slo: float) -> Load:
    return searched(**(slo or {"ttft_p99_s": 4.0})).at(level, 0)


class Clock:
    """Seconds that go on by themselves, a fifth at a time."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        self.now_s += 0.2
        return self.now_s


def arrivals_of(load: Load, seed: int) -> tuple[list[float], int]:
    """Return the arrivals of a probe, and how many come before its window."""
    times = due_times(POISSON, Flat(load.level), random.Random(seed))
    count = load.warmup_requests + (load.requests or 0)
    return list(islice(times, count)), load.warmup_requests


def noticed(load: Load, seed: int) -> bool:
    """Show a gauge the requests in flight at a server of known capacity."""
    arrivals, _ = arrivals_of(load, seed)
    ends = sorted(
        at_s + took_s
        for at_s, took_s in zip(arrivals, open_loop(arrivals, SERVICE_S, SERVERS), strict=True)
    )
    gauge, at_s = Gauge(load, Clock()), 0.0
    while at_s < arrivals[-1] and gauge.overload() is None:
        gauge.note(bisect_right(arrivals, at_s) - bisect_right(ends, at_s))
        at_s += 0.2
    return gauge.said is not None


@pytest.mark.parametrize(("share", "fewest", "most"), [(0.7, 0, 0), (0.9, 0, 3), (1.5, 36, 40)])
def test_a_probe_over_capacity_is_cut_and_one_under_it_is_not(
    share: float, fewest: int, most: int
) -> None:
    cut = sum(noticed(probe(CAPACITY_PER_S * share), seed) for seed in range(40))
    assert fewest <= cut <= most


def test_a_load_that_is_no_probe_is_never_cut() -> None:
    gauge = Gauge(searched(ttft_p99_s=1), Clock())
    for flying in range(2000):
        gauge.note(flying)
    assert gauge.overload() is None


def test_what_is_said_of_an_overload_names_rate_and_growth() -> None:
    gauge = Gauge(probe(8.0), Clock())
    for flying in range(400):
        gauge.note(flying)
        gauge.overload()
    assert gauge.said is not None
    assert "overloaded at 8 requests per second: in flight grew from 30 to" in gauge.said


def timelines(ttft_s: Iterable[float], outcome: str = "ok") -> list[Timeline]:
    return [_timeline(number, round(took_s * 1e9), outcome) for number, took_s in enumerate(ttft_s)]


def _timeline(number: int, took_ns: int, outcome: str) -> Timeline:
    due_ns = number * 10**8
    chunk_ns = (due_ns + took_ns, due_ns + took_ns + 10**8)
    return Timeline(
        request=number,
        intended_ns=due_ns,
        sent_ns=due_ns,
        first_ns=chunk_ns[0],
        last_ns=chunk_ns[1],
        ended_ns=chunk_ns[1],
        chunk_ns=chunk_ns,
        chunk_tokens=(1, 1),
        output_tokens=2,
        input_tokens=8,
        outcome=outcome,
    )


def tried(lines: list[Timeline], **changes: Any) -> Tried:
    found = figures(lines, opened_ns=0, closed_ns=10**11, steady=None)
    whole = Tried(
        figures=found,
        timelines=lambda: lines,
        doubts=(),
        limits=Limits(),
        proof=Proof(),
        overload=None,
    )
    return replace(whole, **changes)


def test_a_probe_within_its_limits_meets_and_one_beyond_misses() -> None:
    lines = timelines([0.5] * 200)
    assert judged(probe(ttft_p99_s=1), tried(lines))[0] is True
    assert judged(probe(ttft_p99_s=0.4), tried(lines))[0] is False
    assert judged(probe(ttft_p99_s=1, tpot_p99_ms=50), tried(lines))[0] is False


def test_goodput_is_the_share_of_requests_within_limits_of_their_own() -> None:
    lines = timelines([0.5] * 180 + [2.0] * 20)
    assert judged(probe(goodput_ratio=0.9, ttft_s=1), tried(lines))[0] is True
    assert judged(probe(goodput_ratio=0.91, ttft_s=1), tried(lines))[0] is False


def test_requests_that_fail_are_a_miss_and_no_void_figure() -> None:
    lines = [*timelines([0.5] * 190), *timelines([0.5] * 10, outcome="timeout")]
    doubts = (doubt("failures", "random", "10 of 200 requests failed"),)
    met, kept = judged(probe(ttft_p99_s=1), tried(lines, doubts=doubts))
    assert (met, kept) == (False, [])


def test_an_overload_is_a_miss_however_fast_the_requests_were() -> None:
    cut = (doubt("aborted", "random", "ended early"),)
    met, kept = judged(
        probe(ttft_p99_s=1), tried(timelines([0.1] * 50), doubts=cut, overload="it grew")
    )
    assert met is False
    assert [(entry.name, entry.sentence) for entry in kept] == [("overloaded", "it grew")]


def test_a_void_figure_tells_nothing() -> None:
    void = (doubt("in_flight", "random", "the client could not hold them"),)
    met, kept = judged(probe(ttft_p99_s=1), tried(timelines([0.5] * 200), doubts=void))
    assert met is None
    assert [(entry.name, entry.severity) for entry in kept] == [
        ("in_flight", "suspect"),
        ("unjudged", "suspect"),
    ]
    assert "TTFT p99 <= 1 s" in kept[-1].sentence


WRONG = (doubt("client_error", "random", "over a tenth of the ITL"),)
SMALL, LARGE = Proof(remaining_error_p99_s=0.001), Proof(remaining_error_p99_s=0.2)
LATE = Proof(send_lag_p99_s=0.2)


@pytest.mark.parametrize(
    ("slo", "proof", "met"),
    [
        ({"ttft_p99_s": 1}, SMALL, True),
        ({"ttft_p99_s": 0.4}, SMALL, False),
        ({"ttft_p99_s": 1}, LARGE, True),  # late reads only lengthen what counts from the due time
        ({"ttft_p99_s": 0.4}, LARGE, None),
        ({"ttft_p99_s": 0.4}, LATE, None),
        ({"ttft_p99_s": 1, "tpot_p99_ms": 150}, LARGE, None),
        ({"goodput_ratio": 0.9, "e2e_s": 1}, LARGE, True),
        ({"goodput_ratio": 0.9, "tpot_ms": 150, "e2e_s": 1}, LARGE, None),
    ],
)
def test_the_clients_errors_count_against_the_limits_of_the_slo(
    slo: dict[str, float], proof: Proof, met: bool | None
) -> None:
    found, kept = judged(probe(**slo), tried(timelines([0.5] * 200), doubts=WRONG, proof=proof))
    assert found is met
    assert [entry.severity for entry in kept] == (["suspect"] * 2 if met is None else ["note"])


@pytest.mark.parametrize(("off_ratio", "met"), [(0.03, True), (0.07, None)])
def test_a_rate_that_was_missed_by_more_than_the_bracket_is_another_level(
    off_ratio: float, met: bool | None
) -> None:
    off = (doubt("off_schedule", "random", "off"),)
    proof = Proof(off_schedule_ratio=off_ratio)
    found, kept = judged(
        probe(ttft_p99_s=1), tried(timelines([0.5] * 200), doubts=off, proof=proof)
    )
    assert found is met
    assert [entry.severity for entry in kept] == (["suspect"] * 2 if met is None else ["note"])


def found_by(seed: int) -> Answer:
    """Search a server of known capacity as one boot would."""
    load, probes = searched(ttft_p99_s=4.0), list[Probe]()
    assert load.range is not None
    while isinstance(found := step(probes, load.range), Next):
        at = load.at(found.level, len(probes))
        arrivals, before = arrivals_of(at, seed * 1000 + len(probes))
        latencies = open_loop(arrivals, SERVICE_S, SERVERS)[before:]
        in_time = float(np.quantile(latencies, 0.99)) <= 4.0
        met = in_time and not noticed(at, seed * 1000 + len(probes))
        probes.append(Probe(level=found.level, met=met))
    return found


def test_a_capacity_is_found_near_the_servers_own_and_repeats_within_its_interval() -> None:
    boots = [found_by(seed) for seed in range(30)]
    levels = [boot.level or 0.0 for boot in boots]
    assert all(boot.why == "found" for boot in boots)
    assert all((boot.missed or 0) <= (boot.level or 0) * 1.05 * (1 + 1e-9) for boot in boots)
    assert max(levels) < 1.25 * CAPACITY_PER_S
    assert min(levels) > 0.6 * CAPACITY_PER_S
    whole = geometric(levels)
    assert isinstance(whole, Interval)
    held = 0
    for first in range(0, 30, 5):
        few = geometric(levels[first : first + 5])
        assert isinstance(few, Interval)
        held += few.low <= whole.centre <= few.high
    assert held >= 4
