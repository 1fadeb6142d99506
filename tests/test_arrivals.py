"""Arrival times follow their law, come again from their seed, and are never bent to a rate."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from runner.load.arrivals import (
    POISSON,
    Constant,
    Exponential,
    Flat,
    Gamma,
    Law,
    Linear,
    Pace,
    Steps,
    due_times,
    replayed,
)

RATES = st.floats(0.1, 1000)
SPANS = st.floats(0.1, 1000)
PACES = st.one_of(
    st.builds(Flat, RATES),
    st.builds(Linear, st.floats(0, 1000), RATES, SPANS),
    st.builds(Exponential, RATES, RATES, SPANS),
    st.builds(
        Steps,
        st.lists(st.tuples(RATES, SPANS), min_size=1, max_size=4).map(tuple),
    ),
)


def drawn(law: Law, pace: Pace, count: int, seed: int = 1) -> Sequence[float]:
    return list(itertools.islice(due_times(law, pace, random.Random(seed)), count))


@given(PACES, st.integers())
def test_times_never_decrease_and_come_again_from_their_seed(pace: Pace, seed: int) -> None:
    first, second = (drawn(POISSON, pace, 200, seed) for _ in range(2))
    assert first == second
    assert first == sorted(first)
    assert first[0] >= 0


def test_another_seed_gives_other_times() -> None:
    assert drawn(POISSON, Flat(10), 5, 1) != drawn(POISSON, Flat(10), 5, 2)


def test_constant_arrivals_are_evenly_spaced_from_the_start() -> None:
    assert drawn(Constant(), Flat(4), 4) == [0, 0.25, 0.5, 0.75]


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(drawn(POISSON, Flat(400), 20_000), prepend=0)
    assert stats.kstest(gaps, "expon", args=(0, 1 / 400)).pvalue > 0.01
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1, rel=0.02)


def test_the_drawn_rate_is_left_as_it_fell() -> None:
    spans = {drawn(POISSON, Flat(100), 1000, seed)[-1] for seed in range(20)}
    assert len(spans) == 20
    assert np.std(list(spans)) == pytest.approx(math.sqrt(1000) / 100, rel=0.5)


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_burstiness_sets_the_variation_of_the_gaps(burstiness: float) -> None:
    gaps = np.diff(drawn(Gamma(burstiness), Flat(50), 20_000), prepend=0)
    assert np.mean(gaps) == pytest.approx(1 / 50, rel=0.05)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1 / math.sqrt(burstiness), rel=0.05)


def test_an_infinite_rate_lets_everything_arrive_at_once() -> None:
    assert drawn(Constant(), Flat(math.inf), 3) == [0, 0, 0]


def rate_at(pace: Pace, unit: float) -> float:
    step = 1e-4
    return step / (pace.second(unit + step) - pace.second(unit))


def test_a_linear_ramp_moves_from_one_rate_to_the_other_and_stays() -> None:
    pace = Linear(10, 30, 10)
    assert pace.second(200) == pytest.approx(10)
    assert rate_at(pace, 0) == pytest.approx(10, rel=1e-3)
    assert rate_at(pace, 75) == pytest.approx(20, rel=1e-3)
    assert rate_at(pace, 500) == pytest.approx(30, rel=1e-3)


def test_a_ramp_from_nothing_begins_with_nothing() -> None:
    assert Linear(0, 10, 10).second(50) == pytest.approx(10)
    assert Linear(0, 10, 10).second(12.5) == pytest.approx(5)


def test_a_ramp_to_nothing_ends_the_arrivals() -> None:
    times = list(due_times(Constant(), Linear(10, 0, 10), random.Random(1)))
    assert len(times) == 50
    assert times[-1] < 10


def test_an_exponential_ramp_multiplies_the_rate() -> None:
    pace = Exponential(1, 16, 4)
    half = 3 / math.log(2)
    assert pace.second(half) == pytest.approx(2)
    assert rate_at(pace, half) == pytest.approx(4, rel=1e-3)
    assert rate_at(pace, 1000) == pytest.approx(16, rel=1e-3)


def test_steps_follow_one_another_and_a_rate_of_zero_is_a_pause() -> None:
    pace = Steps(((2, 1), (0, 3), (4, 1)))
    assert drawn(Constant(), pace, 4) == [0, 0.5, 4, 4.25]


@given(PACES, st.floats(0, 500), st.floats(0, 500))
def test_a_pace_turns_more_arrivals_into_later_times(pace: Pace, a: float, b: float) -> None:
    assert pace.second(min(a, b)) <= pace.second(max(a, b))


def test_a_trace_keeps_its_own_times() -> None:
    assert list(replayed([5.0, 5.0, 7.25])) == [0, 0, 2.25]


def test_a_trace_that_goes_back_in_time_is_refused() -> None:
    with pytest.raises(ValueError, match="time 2 of the trace"):
        list(replayed([0, 2, 1]))


@pytest.mark.parametrize("rate", [0, -1, math.nan])
def test_a_rate_that_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="over 0"):
        Flat(rate)
