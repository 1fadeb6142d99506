"""Intervals of means and ratios, the bootstrap, and what few boots may have missed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import (  # type: ignore[import-untyped]
    proportion_confint,
)

from runner.stats import bootstrap, unseen
from runner.stats.interval import (
    Interval,
    LogMean,
    geometric,
    interval,
    p_differs,
    paired,
    pairs,
    per_boot,
    ratio,
    unequal_tails,
    unpaired,
)
from runner.stats.refusal import Refusal
from runner.stats.share import at_most, share

OURS = [792.0, 842.0, 843.0, 835.0, 850.0]
THEIRS = [810.0, 845.0, 860.0, 842.0, 871.0]
POSITIVE = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=12)


def known(found: Interval | Refusal) -> Interval:
    assert isinstance(found, Interval), found
    return found


def mean(found: LogMean | Refusal) -> LogMean:
    assert isinstance(found, LogMean), found
    return found


def test_the_paired_ratio_is_the_one_that_r_prints() -> None:
    found = known(ratio(OURS, THEIRS))
    # R 4.2.2: t.test(log(ours) - log(theirs))$conf.int
    assert math.log(found.low) == pytest.approx(-0.02722005318932, abs=1e-12)
    assert math.log(found.high) == pytest.approx(-0.00427947359957, abs=1e-12)
    assert (found.n, found.level) == (5, 0.95)


def test_the_unpaired_ratio_is_the_welch_interval_that_r_prints() -> None:
    found = mean(unpaired(OURS, THEIRS))
    limits = known(interval(found))
    # R 4.2.2: t.test(log(ours), log(theirs))
    assert found.df == pytest.approx(7.99301834545, rel=1e-9)
    assert math.log(limits.low) == pytest.approx(-0.0564984828688, abs=1e-12)
    assert math.log(limits.high) == pytest.approx(0.0249989560800, abs=1e-12)
    assert p_differs(found) == pytest.approx(0.398738584, abs=1e-9)


def test_a_geometric_mean_has_scipys_t_interval_on_the_logs() -> None:
    found = known(geometric(OURS, level=0.9))
    logs = stats.ttest_1samp(np.log(OURS), 0.0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((math.exp(logs.low), math.exp(logs.high)))
    assert found.centre == pytest.approx(stats.gmean(OURS))


@given(POSITIVE, st.floats(0.01, 100))
def test_a_ratio_to_oneself_scaled_is_the_scale_exactly(values: list[float], scale: float) -> None:
    found = known(ratio([scale * value for value in values], values))
    assert (found.low, found.high) == pytest.approx((scale, scale))


@given(st.lists(st.tuples(st.floats(0.1, 1e6), st.floats(0.1, 1e6)), min_size=2, max_size=12))
def test_swapping_the_sides_inverts_the_interval(blocks: list[tuple[float, float]]) -> None:
    ours, theirs = [list(side) for side in zip(*blocks, strict=True)]
    there, back = known(ratio(ours, theirs)), known(ratio(theirs, ours))
    assert math.log(there.low) == pytest.approx(-math.log(back.high), abs=1e-9)


def test_one_boot_is_refused_and_told_how_many_more() -> None:
    found = ratio([1.0], [2.0])
    assert isinstance(found, Refusal)
    assert found.needed_boots == (1, 1)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_value_without_a_logarithm_is_refused_with_its_boot(value: float) -> None:
    found = geometric([1.0, value, 2.0])
    assert isinstance(found, Refusal)
    assert "boot 1" in found.reason
    assert found.needed_boots is None


def test_sides_of_unequal_length_are_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="complete blocks"):
        paired([1.0, 2.0], [1.0])


def test_pairs_are_the_blocks_that_both_sides_have_in_order() -> None:
    assert pairs({3: 30.0, 1: 10.0, 2: 20.0}, {1: 11.0, 3: 33.0}) == ((10.0, 30.0), (11.0, 33.0))


def test_the_loads_of_a_boot_become_one_number() -> None:
    assert per_boot([[1.0, 4.0], [3.0]]) == pytest.approx((2.0, 3.0))
    with pytest.raises(ValueError, match="leave out void loads"):
        per_boot([[1.0, 0.0]])


def test_a_p99_is_compared_at_equal_request_counts_only() -> None:
    assert unequal_tails([100, 100], [100, 100]) is None
    refusal = unequal_tails([100, 100], [400, 400])
    assert refusal is not None
    assert "100 to 400" in refusal.reason


@pytest.mark.parametrize(("boots", "chance"), [(3, 0.5), (5, 2 / 3), (10, 9 / 11), (20, 19 / 21)])
def test_min_max_says_how_likely_the_next_boot_is_inside(boots: int, chance: float) -> None:
    found = unseen.min_max(list(range(1, boots + 1)))
    assert isinstance(found, unseen.MinMax)
    assert (found.low, found.high) == (1, boots)
    assert found.level == pytest.approx(chance)


def test_the_next_boot_falls_inside_as_often_as_said() -> None:
    draws = np.random.default_rng(1).lognormal(size=(20_000, 6))
    inside = (draws[:, 5] >= draws[:, :5].min(axis=1)) & (draws[:, 5] <= draws[:, :5].max(axis=1))
    assert inside.mean() == pytest.approx(2 / 3, abs=0.012)


@pytest.mark.parametrize(("boots", "percent"), [(3, 63), (5, 45), (10, 26), (20, 14)])
def test_boots_that_agree_may_hide_a_mode(boots: int, percent: int) -> None:
    assert round(100 * unseen.unseen_mode(boots)) == percent
    assert unseen.unseen_mode(boots) == pytest.approx(at_most(0, boots))


def test_one_of_three_is_compatible_with_almost_everything() -> None:
    found = share(1, 3)
    # R 4.2.2: binom.test(1, 3)$conf.int
    assert (found.low, found.high) == pytest.approx((0.00840375865961, 0.90570067594975))
    assert str(found) == "1 of 3 is compatible with 1 to 91 %"


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_statsmodels_beta_interval(case: tuple[int, int]) -> None:
    found = share(*case, level=0.9)
    assert (found.low, found.high) == pytest.approx(
        proportion_confint(*case, alpha=0.1, method="beta")
    )


def test_a_count_above_n_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="4 of 3"):
        share(4, 3)


def test_the_bootstrap_waits_for_20_boots() -> None:
    found = bootstrap.bootstrap([1.0, 2.0, 3.0], bootstrap.mean, seed=1)
    assert isinstance(found, Refusal)
    assert found.needed_boots == (17, 17)


def test_expanded_percentiles_invert_hesterbergs_equation() -> None:
    # sqrt((n - 1) / n) z(tail') = t(tail, n - 1)
    tail = bootstrap.expanded_tail(0.025, 20)
    assert math.sqrt(19 / 20) * stats.norm.ppf(tail) == pytest.approx(stats.t.ppf(0.025, 19))
    assert tail < 0.025


def test_the_bootstrap_of_a_mean_is_near_the_t_interval_and_repeats_itself() -> None:
    values = np.random.default_rng(4).normal(100, 5, 40)
    found = known(bootstrap.bootstrap(values, bootstrap.mean, seed=7))
    t = stats.ttest_1samp(values, 0.0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((t.low, t.high), abs=0.25)
    assert found == bootstrap.bootstrap(values, bootstrap.mean, seed=7)


def test_whole_blocks_are_drawn_so_that_what_a_block_shares_cancels() -> None:
    shared = np.random.default_rng(5).lognormal(sigma=0.5, size=20)
    median = bootstrap.quantile(0.5)
    found = known(bootstrap.bootstrap_ratio(1.1 * shared, shared, median, seed=1))
    assert (found.low, found.centre, found.high) == pytest.approx((1.1, 1.1, 1.1))


def test_a_bootstrap_of_unequal_sides_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="complete blocks"):
        bootstrap.bootstrap_ratio([1.0] * 20, [1.0] * 21, bootstrap.mean, seed=1)
