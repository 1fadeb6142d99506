"""Boots in groups, by fact and by the metric, and the example that must not be misread."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.stats import groups, kv, split
from runner.stats.interval import Interval
from runner.stats.refusal import Refusal

KV_TOKENS = [22_048, 26_560, 26_560]
THROUGHPUT = [792.0, 842.0, 843.0]


def test_boots_of_unequal_kv_are_grouped_at_any_n_and_have_no_single_mean() -> None:
    found = groups.by_fact({"kv_tokens": KV_TOKENS})
    assert [group.boots for group in found] == [(1, 2), (0,)]
    assert found[1].facts == {"kv_tokens": (22_048,)}
    assert str(found[1].share) == "1 of 3 is compatible with 1 to 91 %"
    refusal = groups.one_mean(THROUGHPUT, found)
    assert isinstance(refusal, Refusal)
    assert "no single mean" in refusal.reason


def test_the_example_says_what_fits_and_that_nothing_compares_at_equal_kv() -> None:
    assert [kv.requests_at_once(tokens, 512, 128) for tokens in KV_TOKENS] == [34, 41, 41]
    assert kv.near(KV_TOKENS, [25_282] * 3) == ()
    refusal = kv.hindrance(KV_TOKENS, [True, False, False], [25_282] * 3)
    assert refusal is not None
    assert refusal.reason == (
        "KV and being the first boot cannot be separated here; pin KV and run 5 boots"
    )


def test_boots_that_agree_in_every_fact_have_one_mean() -> None:
    found = groups.by_fact({"kv_tokens": [26_560, 26_400, 26_560], "graphs": ["full"] * 3})
    assert len(found) == 1
    assert isinstance(groups.one_mean(THROUGHPUT, found), Interval)


def test_words_unknown_facts_and_zero_part_boots_too() -> None:
    assert len(groups.by_fact({"cache": ["cold", "warm", "warm"]})) == 2
    assert len(groups.by_fact({"kv_tokens": [1000, None, math.nan]})) == 2
    assert len(groups.by_fact({"graphs": [0, 0, 51]})) == 2


def test_facts_of_unequal_length_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="one value per boot"):
        groups.by_fact({"kv_tokens": [1, 2], "graphs": [1]})


@given(st.lists(st.integers(9_000, 11_000), min_size=1, max_size=12))
def test_no_two_boots_of_a_group_differ_by_over_one_percent(tokens: list[int]) -> None:
    found = groups.by_fact({"kv_tokens": tokens})
    assert sorted(i for group in found for i in group.boots) == list(range(len(tokens)))
    for group in found:
        inside = [tokens[i] for i in group.boots]
        assert max(inside) - min(inside) <= 0.01 * max(inside)


def test_a_wide_gap_is_always_cut() -> None:
    tokens = [100.0, 100.5, 101.4, 110.0]
    found = groups.by_fact({"kv_tokens": tokens})
    assert {group.boots for group in found} == {(0, 1), (2,), (3,)}


def test_two_groups_by_the_metric_are_silent_under_8_boots() -> None:
    found = split.by_metric([1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    assert isinstance(found, Refusal)
    assert found.needed_boots == (1, 1)


def test_two_clear_groups_are_named_with_care() -> None:
    found = split.by_metric([800.0, 840, 801, 841, 839, 842, 800.5, 840.5])
    assert isinstance(found, split.Split)
    assert found.named
    assert found.low == (0, 2, 6)
    assert str(found) == "two groups or a long tail (3 + 5 boots)"


def test_one_odd_boot_is_no_group() -> None:
    found = split.by_metric([800.0, 840, 841, 842, 843, 844, 845, 846])
    assert isinstance(found, split.Split)
    assert min(len(found.low), len(found.high)) >= 2


def test_boots_that_are_all_equal_are_one_group() -> None:
    found = split.by_metric([841.7] * 9)
    assert isinstance(found, split.Split)
    assert not found.named
    assert str(found) == ""


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(1.0, 100.0), min_size=8, max_size=9, unique=True))
def test_the_best_split_beats_every_other_division_in_two(values: list[float]) -> None:
    found = split.by_metric(values)
    assert isinstance(found, split.Split)
    best = 0.0
    logs = np.log(values)
    total = float(((logs - logs.mean()) ** 2).sum())
    for size in range(2, len(values) - 1):
        for chosen in itertools.combinations(range(len(values)), size):
            inside = np.isin(np.arange(len(values)), chosen)
            parts = (logs[inside], logs[~inside])
            within = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
            best = max(best, (total - within) / within if within > 1e-12 * total else math.inf)
    assert found.separation == pytest.approx(best, rel=1e-6)


def test_the_limits_of_normal_boots_are_those_of_another_simulation() -> None:
    rng = np.random.default_rng(99)
    beyond = 0
    for _ in range(3_000):
        x = np.sort(rng.standard_normal(12))
        ratios = []
        for cut in range(2, 11):
            within = 12 * (cut / 12 * x[:cut].var() + (1 - cut / 12) * x[cut:].var())
            ratios.append((12 * x.var() - within) / within)
        beyond += max(ratios) > split.normal_limit(12)
    assert beyond / 3_000 == pytest.approx(0.05, abs=0.013)


def test_a_share_of_variance_would_see_two_groups_in_noise() -> None:
    draws = np.sort(np.random.default_rng(1).standard_normal((20_000, 3)), axis=1)
    ends = np.minimum(draws[:, 1] - draws[:, 0], draws[:, 2] - draws[:, 1])
    r2 = 1 - ends**2 / 2 / (draws.var(axis=1) * 3)
    assert (r2 > 0.8).mean() == pytest.approx(0.89, abs=0.01)
