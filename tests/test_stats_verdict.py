"""Verdicts over a declared family, the design behind them, and moderated variances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats
from statsmodels.stats.multitest import multipletests  # type: ignore[import-untyped]
from statsmodels.stats.weightstats import ttost_paired  # type: ignore[import-untyped]

from runner.stats import design, moderated
from runner.stats.interval import LogMean, paired
from runner.stats.refusal import Refusal
from runner.stats.verdict import (
    Comparison,
    Rules,
    Verdict,
    equal_within,
    holm,
    least_boots,
    p_equal,
    verdicts,
)

STEADY = [100.0, 101.0, 99.5, 100.5, 99.8]


def mean(ours: list[float], theirs: list[float]) -> LogMean:
    found = paired(ours, theirs)
    assert isinstance(found, LogMean)
    return found


def only(comparison: Comparison, rules: Rules) -> Verdict:
    return verdicts([comparison], rules)[0]


def faster(factor: float, boots: int = 5) -> Comparison:
    noise = [1.002, 0.998, 1.001, 0.999, 1.0, 1.003][:boots]
    ours = [factor * a * b for a, b in zip(STEADY, noise, strict=False)]
    return Comparison(name="a", mean=paired(ours, STEADY[: len(ours)]))


def test_a_clear_gain_is_better_and_for_a_latency_worse() -> None:
    assert only(faster(1.1), Rules()).word == "better"
    assert only(faster(1.1), Rules(higher_is_better=False)).word == "worse"
    assert only(faster(0.9), Rules()).word == "worse"


def test_a_sure_difference_within_the_margin_is_equal_with_its_interval() -> None:
    found = only(faster(1.01), Rules(margin=0.03))
    assert found.word == "equal"
    assert found.p is not None
    assert found.p < 0.01
    assert only(faster(1.01), Rules(margin=None)).word == "better"


def test_under_5_boots_nothing_is_called_however_clear() -> None:
    found = only(faster(1.5, boots=4), Rules())
    assert found.word == "not enough data"
    assert found.reason == "4 boots a side; a verdict needs 5"
    assert found.needed_boots is not None
    assert found.needed_boots[0] >= 1


def test_from_30_comparisons_6_boots_are_needed() -> None:
    assert (least_boots(29), least_boots(30)) == (5, 6)
    assert only(faster(1.5), Rules(m=30)).word == "not enough data"


def test_a_two_valued_doubt_forbids_a_verdict_and_more_boots_would_not_help() -> None:
    comparison = faster(1.5)
    doubted = Comparison(name="a", mean=comparison.mean, doubt="two groups or a long tail")
    found = only(doubted, Rules())
    assert found.word == "not enough data"
    assert found.reason == "two groups or a long tail: compare group by group"
    assert found.needed_boots is None


def test_comparisons_that_could_not_be_made_still_count_in_m() -> None:
    refused = Comparison(name="b", mean=Refusal(method="paired t", n=0, reason="all boots failed"))
    found = verdicts([faster(1.1), refused], Rules(m=12))
    assert found[0].p is not None
    assert found[0].p_holm == pytest.approx(min(1.0, 12 * found[0].p))
    assert (found[1].word, found[1].reason) == ("not enough data", "all boots failed")


def test_more_comparisons_than_declared_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="m = 1"):
        verdicts([faster(1.1), faster(1.1)], Rules(m=1))


@pytest.mark.parametrize("wrong", [{"m": 0}, {"looks": 4}, {"margin": 0.0}, {"alpha": 0.9}])
def test_rules_that_no_plan_may_state_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|above 0"):
        Rules(**wrong)  # type: ignore[arg-type]


def test_three_looks_spend_a_third_of_alpha_each() -> None:
    found = only(faster(1.1), Rules(looks=3))
    assert found.level == pytest.approx(1 - 0.05 / 3)
    shaky = mean([100, 105, 99, 108, 103], STEADY)
    p = only(Comparison(name="a", mean=shaky), Rules()).p
    assert p is not None
    assert p > 0.05 / 3
    assert only(Comparison(name="a", mean=shaky), Rules(looks=3, margin=None)).word == (
        "not enough data"
    )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(0, 20))
def test_holm_is_statsmodels_with_the_missing_tests_at_1(ps: list[float], more: int) -> None:
    expected = multipletests([*ps, *([1.0] * more)], method="holm")[1][: len(ps)]
    assert holm(ps, len(ps) + more) == pytest.approx(list(expected))


def test_holm_is_what_r_prints() -> None:
    # R 4.2.2: p.adjust(c(0.001, 0.012, 0.04, 0.03), "holm", n = 10)
    assert holm([0.001, 0.012, 0.04, 0.03], 10) == pytest.approx((0.010, 0.108, 0.280, 0.240))


def test_equality_is_the_paired_tost_of_statsmodels() -> None:
    ours, theirs = [101.0, 99.0, 103.0, 98.0, 102.0, 100.0], [100.0, 101, 100, 99, 101, 100.5]
    limit = math.log(1.03)
    expected, *_ = ttost_paired(np.log(ours), np.log(theirs), -limit, limit)
    assert p_equal(mean(ours, theirs), 0.03) == pytest.approx(expected)


def test_the_smallest_supported_margin_is_where_equality_just_holds() -> None:
    found = mean([101.0, 99.0, 103.0, 98.0, 102.0], STEADY)
    margin = equal_within(found)
    assert p_equal(found, margin) == pytest.approx(0.05)


def test_without_a_verdict_the_boots_needed_follow_the_spread() -> None:
    noisy = mean([100, 112, 95, 104, 90], STEADY)
    found = only(Comparison(name="a", mean=noisy), Rules())
    assert found.spread is not None
    assert found.spread.source == "these boots"
    low, high = found.needed_boots or (0, 0)
    assert 1 <= low < high
    margin = math.log(1.03)
    needed = design.boots_to_decide(found.spread.low, margin, 0.05, 0.05)
    assert low == needed - 5


def test_past_results_give_the_range_where_they_rest_on_more_and_are_named() -> None:
    past = design.past_spread("vllm, 12 nights", [STEADY, STEADY, STEADY])
    assert isinstance(past, design.Spread)
    noisy = mean([100, 112, 95, 104, 90], STEADY)
    found = only(Comparison(name="a", mean=noisy, past=past), Rules())
    assert found.spread is not None
    assert found.spread.source == "vllm, 12 nights"
    assert (past.df, past.n) == (12, 15)


def test_a_spread_has_the_chi_square_interval() -> None:
    found = design.spread("these boots", 0.02, 5, 4)
    limits = [0.02 * math.sqrt(4 / stats.chi2.ppf(p, 4)) for p in (0.9, 0.1)]
    assert (found.low, found.high) == pytest.approx(limits)


def test_past_cells_of_one_boot_each_say_nothing_of_spread() -> None:
    assert isinstance(design.past_spread("vllm", [[1.0], [2.0]]), Refusal)


@pytest.mark.parametrize(
    ("boots", "effect", "alpha", "printed"),
    [(5, 1.5, 0.05, 0.710702673926), (6, 3.0, 0.05 / 30, 0.76488661637)],
)
def test_power_is_what_r_prints(boots: int, effect: float, alpha: float, printed: float) -> None:
    # R 4.2.2: power.t.test(n, delta, sd = 1, sig.level, type = "paired", strict = TRUE)$power
    assert design.power(boots, 1.0, effect, alpha) == pytest.approx(printed, abs=2e-6)


def test_the_smallest_difference_is_what_r_prints() -> None:
    found = design.smallest_difference(10, 0.01, m=30, least=6)
    assert isinstance(found, design.SmallestDifference)
    # R 4.2.2: power.t.test(power = .8, n = 10, sd = 1, sig.level = .05/30, type = "paired")$delta
    assert math.log1p(found.ratio) / 0.01 == pytest.approx(1.73978056523, abs=1e-4)
    assert found.m == 30


def test_a_design_under_5_boots_finds_nothing_and_says_so() -> None:
    found = design.smallest_difference(3, 0.01, m=1, least=least_boots(1))
    assert isinstance(found, Refusal)
    assert found.needed_boots == (2, 2)


def test_the_chance_of_equality_is_its_integral() -> None:
    shift, limit = 0.03 / 0.02 * math.sqrt(8), stats.t.ppf(0.95, 7)

    def density(seen: float) -> float:
        equal = 2 * special.ndtr(shift - limit * seen) - 1
        return float(equal * stats.chi.pdf(seen * math.sqrt(7), 7) * math.sqrt(7))

    expected, _ = integrate.quad(density, 0, shift / limit)
    assert design.power_to_equal(8, 0.02, 0.03, 0.05) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sd", [0.003, 0.02, 0.1])
def test_the_boots_to_decide_are_the_fewest_that_reach_the_power(sd: float) -> None:
    margin = math.log(1.03)

    def both(boots: int) -> float:
        return min(
            design.power(boots, sd, margin, 0.005), design.power_to_equal(boots, sd, margin, 0.05)
        )

    needed = design.boots_to_decide(sd, margin, 0.005, 0.05)
    assert both(needed) >= 0.8
    assert needed == 2 or both(needed - 1) < 0.8


def test_no_plan_goes_beyond_ten_thousand_boots() -> None:
    assert design.boots_to_decide(50.0, math.log(1.03), 0.001, 0.05) == design.MOST_BOOTS


def test_more_boots_cost_gpu_minutes() -> None:
    assert design.gpu_minutes((4, 9), block_s=600, gpus=2) == (80, 180)


VARIANCES = [0.00012, 0.00034, 0.00021, 0.00095, 0.00008, 0.00041, 0.00027, 0.00150]


@pytest.mark.parametrize(
    ("dfs", "df", "variance"),
    [
        ([4.0] * 8, 7.27903278509, 0.000362478738508),
        ([4.0, 4, 5, 9, 4, 7, 4, 9], 6.49521820068, 0.000334877890203),
    ],
)
def test_the_prior_is_the_one_that_limma_prints(
    dfs: list[float], df: float, variance: float
) -> None:
    found = moderated.fit(VARIANCES, dfs)
    # limma 3.54.1: squeezeVar(var, df)$df.prior and $var.prior
    assert isinstance(found, moderated.Prior)
    assert (found.df, found.variance) == pytest.approx((df, variance), rel=1e-8)


def test_a_moderated_variance_is_limmas_where_no_cut_applies() -> None:
    prior = moderated.Prior(method="moderated variance", n=8, df=3.0, variance=0.0004)
    own = LogMean(method="t", n=5, mean=0.01, se=math.sqrt(0.00012 / 5), df=4)
    found = moderated.moderate(own, prior)
    assert found.sd**2 == pytest.approx((3 * 0.0004 + 4 * 0.00012) / 7)
    assert (found.df, found.mean) == (7, 0.01)


def test_a_cell_keeps_half_of_the_weight_and_a_noisy_cell_all_of_it() -> None:
    prior = moderated.Prior(method="moderated variance", n=8, df=math.inf, variance=0.0001)
    quiet = LogMean(method="t", n=5, mean=0.0, se=math.sqrt(0.00005 / 5), df=4)
    assert moderated.moderate(quiet, prior).df == 8
    assert moderated.moderate(quiet, prior).sd ** 2 == pytest.approx(0.000075)
    noisy = LogMean(method="t", n=5, mean=0.0, se=math.sqrt(0.0009 / 5), df=4)
    assert moderated.moderate(noisy, prior) == noisy


def test_cells_that_differ_by_no_more_than_chance_have_an_endless_prior() -> None:
    found = moderated.fit([1e-4, 1.1e-4, 0.9e-4, 1e-4], [4] * 4)
    assert isinstance(found, moderated.Prior)
    assert found.df == math.inf


def test_a_prior_needs_3_cells_of_5_boots() -> None:
    assert isinstance(moderated.fit([1e-4, 2e-4, 3e-4], [4, 4, 3]), Refusal)
    assert isinstance(moderated.fit([0.0, 0.0, 0.0], [4, 4, 4]), Refusal)


@given(st.floats(1e-3, 1e3))
def test_the_inverse_trigamma_inverts(value: float) -> None:
    assert special.polygamma(1, moderated.trigamma_inverse(value)) == pytest.approx(value, rel=1e-6)
