"""The search for the highest level that meets an SLO: it ends, and its answer is in its bracket."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.boots.search import (
    Answer,
    Next,
    Probe,
    Range,
    Slo,
    meets,
    most_probes,
    requests_for,
    step,
)


def searched(capacity: float, within: Range) -> tuple[Answer, list[Probe]]:
    """Search a server that meets the SLO up to a capacity."""
    probes: list[Probe] = []
    while isinstance(found := step(probes, within), Next):
        probes.append(Probe(level=found.level, met=found.level <= capacity))
        assert len(probes) < 100
    return found, probes


RATES = st.builds(
    Range,
    low=st.floats(0.01, 10),
    high=st.floats(20, 5000),
    within_ratio=st.floats(0.01, 0.5),
    factor=st.floats(1.2, 4),
)
COUNTS = st.builds(
    Range,
    low=st.integers(1, 8),
    high=st.integers(9, 3000),
    within_ratio=st.floats(0, 0.5),
    whole=st.just(True),
)


@given(capacity=st.floats(0.001, 10_000), within=RATES)
def test_the_answer_brackets_the_capacity_as_closely_as_asked(
    capacity: float, within: Range
) -> None:
    answer, probes = searched(capacity, within)
    if answer.why == "below_range":
        assert capacity < within.low
        assert len(probes) == 1
    elif answer.why == "above_range":
        assert capacity >= within.high
    else:
        assert answer.level is not None
        assert answer.missed is not None
        assert answer.level <= capacity < answer.missed
        assert answer.missed <= answer.level * (1 + within.within_ratio) * (1 + 1e-12)


@given(capacity=st.floats(0.001, 10_000), within=COUNTS)
def test_whole_levels_stay_whole_and_end_at_the_highest_that_meets(
    capacity: float, within: Range
) -> None:
    answer, probes = searched(capacity, within)
    assert all(float(probe.level).is_integer() for probe in probes)
    assert len({probe.level for probe in probes}) == len(probes)
    if answer.why == "found":
        assert answer.level is not None
        assert answer.missed is not None
        assert answer.level <= capacity < answer.missed
        close = answer.missed <= answer.level * (1 + within.within_ratio)
        assert close or answer.missed == answer.level + 1


@given(capacity=st.floats(0.001, 10_000), within=RATES)
def test_no_level_outside_the_range_is_asked_and_none_above_a_miss(
    capacity: float, within: Range
) -> None:
    _, probes = searched(capacity, within)
    missed = float("inf")
    for probe in probes:
        assert within.low <= probe.level <= within.high
        assert probe.level < missed
        if not probe.met:
            missed = probe.level


@given(seed=st.integers(), within=RATES)
def test_a_server_that_answers_by_chance_still_ends_the_search(seed: int, within: Range) -> None:
    rng = random.Random(seed)
    probes: list[Probe] = []
    while isinstance(found := step(probes, within), Next):
        probes.append(Probe(level=found.level, met=rng.random() < 0.5))
        assert len(probes) < 100
    if found.level is not None and found.missed is not None:
        assert found.level < found.missed


@given(capacity=st.floats(0.02, 4000), within=RATES, seed=st.integers())
def test_the_order_in_which_probes_are_told_does_not_matter(
    capacity: float, within: Range, seed: int
) -> None:
    _, probes = searched(capacity, within)
    shuffled = probes[:-1]
    random.Random(seed).shuffle(shuffled)
    assert step(shuffled, within) == step(probes[:-1], within)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_answers_of_a_noisy_server_repeat_within_the_noise_and_the_bracket(noise: float) -> None:
    rng = random.Random(5)
    within = Range(low=0.5, high=64, within_ratio=0.05)
    answers = []
    for _ in range(50):
        probes: list[Probe] = []
        while isinstance(found := step(probes, within), Next):
            limit = 6 * rng.gauss(1, noise)
            probes.append(Probe(level=found.level, met=found.level <= limit))
        assert found.level is not None
        answers.append(found.level)
    assert min(answers) >= 6 * (1 - 3 * noise) / 1.05
    assert max(answers) <= 6 * (1 + 3 * noise)


@given(capacity=st.floats(0.001, 10_000), within=st.one_of(RATES, COUNTS))
def test_no_search_takes_more_probes_than_a_plan_reckons_with(
    capacity: float, within: Range
) -> None:
    _, probes = searched(capacity, within)
    assert len(probes) <= most_probes(within)


def test_a_plan_reckons_with_no_more_probes_than_some_capacity_needs() -> None:
    within = Range(low=1, high=64)
    most = max(len(searched(level / 100, within)[1]) for level in range(90, 6500))
    assert most == most_probes(within)


def test_a_figure_over_its_limit_misses_even_beside_one_that_is_unknown() -> None:
    slo = Slo(ttft_p99_s=2, tpot_p99_s=0.05)
    assert meets({"ttft_p99_s": 2.0, "tpot_p99_s": 0.05}, slo) is True
    assert meets({"ttft_p99_s": 2.1, "tpot_p99_s": None}, slo) is False
    assert meets({"ttft_p99_s": 1.0}, slo) is None


def test_goodput_is_a_floor_and_not_a_ceiling() -> None:
    assert meets({"goodput_ratio": 0.99}, Slo(goodput_ratio=0.95)) is True
    assert meets({"goodput_ratio": 0.90}, Slo(goodput_ratio=0.95)) is False


def test_a_p99_needs_299_requests_and_a_median_five() -> None:
    assert requests_for(0.99) == 299
    assert requests_for(0.5) == 5
    assert requests_for(0.99, confidence=0.5) == 69
