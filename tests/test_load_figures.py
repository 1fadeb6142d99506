"""The figures of a load, by their definitions, from timelines written by hand."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.load import Timeline
from runner.load.census import Steady, census, mean_in_flight, steady_window
from runner.load.figures import Figures, figures
from runner.load.lags import Lags, bucket_ns
from runner.load.spread import Quantiles, Spread

S = 1_000_000_000


def answered(
    sent_s: float,
    chunks_s: Sequence[float],
    *,
    tokens: Sequence[int] = (),
    output_tokens: int | None = None,
    due_s: float | None = None,
    warmup: bool = False,
    outcome: str = "ok",
    cached_tokens: int | None = None,
) -> Timeline:
    chunk_tokens = tuple(tokens or [1] * len(chunks_s))
    times = tuple(round(at * S) for at in chunks_s)
    return Timeline(
        request=0,
        warmup=warmup,
        intended_ns=None if due_s is None else round(due_s * S),
        sent_ns=round(sent_s * S),
        first_ns=times[0] if times else None,
        last_ns=times[-1] if times else None,
        ended_ns=(times[-1] if times else round(sent_s * S)) + 1,
        chunk_ns=times,
        chunk_tokens=chunk_tokens,
        input_tokens=7,
        output_tokens=sum(chunk_tokens) if output_tokens is None else output_tokens,
        cached_tokens=cached_tokens,
        outcome=outcome,
    )


def of(*timelines: Timeline, closed_s: float = 10, steady: Steady | None = None) -> Figures:
    return figures(timelines, opened_ns=0, closed_ns=round(closed_s * S), steady=steady)


def test_ttft_counts_from_the_send_in_closed_loop() -> None:
    assert of(answered(1, [1.5, 1.6])).ttft.p50_s == pytest.approx(0.5)


def test_ttft_counts_from_the_intended_time_in_open_loop_and_the_queue_is_shown() -> None:
    found = of(answered(1, [1.5, 1.6], due_s=0.25))
    assert found.ttft.p50_s == pytest.approx(1.25)
    assert found.e2e.p50_s == pytest.approx(1.35)
    assert found.client_queue.p50_s == pytest.approx(0.75)
    assert found.ttft_from_send.p50_s == pytest.approx(0.5)


def test_closed_loops_have_no_client_queue() -> None:
    assert of(answered(1, [1.5])).client_queue == Quantiles()


def test_four_tokens_in_a_chunk_are_one_gap_and_four_token_gaps() -> None:
    found = of(answered(0, [0.1, 0.14, 0.18], tokens=[4, 4, 4]))
    assert found.itl.count == 2
    assert found.itl.p50_s == pytest.approx(0.04)
    assert found.token_gap.count == 8
    assert found.token_gap.p50_s == pytest.approx(0.01)
    assert found.tpot.p50_s == pytest.approx(0.01)


def test_tpot_is_the_span_by_the_tokens_after_the_first() -> None:
    found = of(answered(0, [0.1, 0.2, 0.4]))
    assert found.tpot.p50_s == pytest.approx(0.15)


def test_a_single_chunk_has_no_gap_and_no_tpot() -> None:
    found = of(answered(0, [0.1]))
    assert found.itl == found.tpot == found.token_gap == Quantiles()
    assert found.ttft.count == 1


def test_failures_count_in_no_latency_and_no_throughput() -> None:
    found = of(answered(0, [1.0, 2.0]), answered(0, [0.5], outcome="truncated"))
    assert (found.requests, found.ok) == (2, 1)
    assert found.outcomes == {"ok": 1, "truncated": 1}
    assert found.ttft.count == 1
    assert found.output_tokens == 2
    assert found.output_tokens_per_s == pytest.approx(0.2)


def test_the_warm_up_counts_in_the_steady_window_only() -> None:
    steady = Steady(from_ns=S, to_ns=3 * S, mean_in_flight=1)
    warm = answered(0, [0.5, 2.0], warmup=True)
    found = of(warm, answered(1, [1.5, 4.0]), closed_s=5, steady=steady)
    assert found.requests == 1
    assert found.ttft.count == 1
    assert found.output_tokens_per_s == pytest.approx(2 / 5)
    assert found.steady_output_tokens_per_s == pytest.approx(2 / 2)
    assert found.steady_requests_per_s == pytest.approx(1 / 2)


def test_tokens_after_the_close_of_the_window_are_not_in_its_rate() -> None:
    found = of(answered(0, [1.0, 2.0, 3.0, 4.0]), closed_s=2.5)
    assert found.output_tokens == 4
    assert found.output_tokens_per_s == pytest.approx(2 / 2.5)
    assert found.requests_per_s == 0


def test_chunks_that_hide_tokens_are_scaled_to_the_server_s_count() -> None:
    found = of(answered(0, [1.0, 2.0], output_tokens=8), closed_s=1.5)
    assert found.output_tokens_per_s == pytest.approx(4 / 1.5)


def test_cached_tokens_that_no_server_told_are_unknown_not_zero() -> None:
    assert of(answered(0, [1.0])).cached_tokens is None
    assert of(answered(0, [1.0], cached_tokens=0)).cached_tokens == 0
    assert of(answered(0, [1.0], cached_tokens=5), answered(0, [1.0])).cached_tokens == 5


def test_a_p99_of_fewer_than_a_hundred_values_is_not_given() -> None:
    few = of(*[answered(0, [number / 100]) for number in range(1, 100)])
    many = of(*[answered(0, [number / 100]) for number in range(1, 101)])
    assert few.ttft.p99_s is None
    assert few.ttft.max_s == pytest.approx(0.99)
    assert many.ttft.p99_s == pytest.approx(0.9901)


def test_a_load_without_answers_has_no_figures() -> None:
    found = of()
    assert (found.requests, found.output_tokens) == (0, 0)
    assert found.ttft == Quantiles()


def test_figures_do_not_depend_on_the_order_of_the_timelines() -> None:
    rng = random.Random(3)
    timelines = [
        answered(sent, [sent + 0.1 + 0.01 * k for k in range(rng.randint(1, 20))])
        for sent in (rng.uniform(0, 5) for _ in range(1500))
    ]
    shuffled = rng.sample(timelines, len(timelines))
    one, other = of(*timelines), of(*shuffled)
    assert one.itl.count == other.itl.count
    assert one.itl.p90_s == pytest.approx(other.itl.p90_s)
    assert one.output_tokens_per_s == pytest.approx(other.output_tokens_per_s)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=200))
def test_quantiles_of_few_values_are_exact(values: list[float]) -> None:
    spread = Spread()
    for value in values:
        spread.add(np.array([value]))
    found = spread.quantiles()
    assert found.p50_s == pytest.approx(float(np.quantile(values, 0.5)))
    assert found.max_s == max(values)
    assert found.mean_s == pytest.approx(float(np.mean(values)))


def test_quantiles_of_millions_are_right_within_a_bucket() -> None:
    rng = np.random.default_rng(1)
    values = rng.lognormal(-4, 1, 5_000_000)
    spread = Spread()
    for part in np.split(values, 50):
        spread.add(part)
    found = spread.quantiles()
    exact = np.quantile(values, [0.5, 0.9, 0.99])
    assert [found.p50_s, found.p90_s, found.p99_s] == pytest.approx(exact, rel=5e-4)
    assert found.max_s == values.max()
    assert found.count == 5_000_000


@given(st.integers(0, 10**15))
def test_a_bucket_of_lags_is_less_than_one_percent_wide(duration_ns: int) -> None:
    edge = bucket_ns(duration_ns)
    assert edge <= duration_ns <= edge * 1.01


@given(st.lists(st.integers(-5, 10**12), max_size=50), st.lists(st.integers(0, 10**12)))
def test_lags_merge_and_travel_as_json(a: list[int], b: list[int]) -> None:
    one, other, both = Lags(), Lags(), Lags()
    one.add(a)
    other.add(b)
    both.add([*a, *b])
    one.merge(Lags.from_plain(other.plain()))
    assert one.counts == both.counts
    assert one.quantile_s(0.99) == both.quantile_s(0.99)
    assert one.largest_s() == both.largest_s()


def spans(*pairs: tuple[float, float]) -> tuple[array[int], array[int]]:
    starts, ends = zip(*pairs, strict=True)
    return array("q", [round(at * S) for at in starts]), array("q", [round(at * S) for at in ends])


def test_the_steady_window_runs_from_the_first_to_the_last_moment_at_the_level() -> None:
    sent, ended = spans((0, 4), (1, 3), (3, 6), (4, 9))
    steady = steady_window(sent, ended, 2, 0, 9 * S)
    assert steady == Steady(from_ns=S, to_ns=6 * S, mean_in_flight=2)


def test_a_hole_in_the_level_lowers_its_mean() -> None:
    sent, ended = spans((0, 2), (0, 10), (4, 10))
    steady = steady_window(sent, ended, 2, 0, 10 * S)
    assert steady is not None
    assert (steady.from_ns, steady.to_ns) == (0, 10 * S)
    assert steady.mean_in_flight == pytest.approx((2 * 2 + 1 * 2 + 2 * 6) / 10)


def test_a_level_that_was_never_reached_has_no_steady_window() -> None:
    sent, ended = spans((0, 1), (2, 3))
    assert steady_window(sent, ended, 2, 0, 3 * S) is None
    assert mean_in_flight(sent, ended, 0, 3 * S) == pytest.approx(2 / 3)


def test_the_steady_window_stays_inside_the_window() -> None:
    sent, ended = spans((0, 10), (0, 10))
    steady = steady_window(sent, ended, 2, 3 * S, 7 * S)
    assert steady == Steady(from_ns=3 * S, to_ns=7 * S, mean_in_flight=2)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0.1, 20)), min_size=1, max_size=40))
def test_mean_in_flight_is_the_time_spent_by_the_length(pairs: list[tuple[float, float]]) -> None:
    sent, ended = spans(*[(start, start + length) for start, length in pairs])
    total = sum(end - start for start, end in zip(sent, ended, strict=True))
    assert mean_in_flight(sent, ended, 0, 80 * S) == pytest.approx(total / (80 * S))


def test_a_census_takes_windows_from_measured_requests_and_levels_from_all() -> None:
    found = census(
        [
            answered(1, [2], warmup=True),
            answered(3, [4], due_s=2.5),
            answered(0, [], due_s=2.75, outcome="cancelled"),
        ]
    )
    assert found.opened_ns == 3 * S
    assert list(found.sent_ns) == [S, 3 * S]
    assert (found.measured, found.sent) == (2, 1)
    assert (found.first_due_ns, found.last_due_ns) == (2.5 * S, 2.75 * S)
    assert found.send_lag.largest_s() == 0.5
