"""Does KV explain the gap, and how much of the spread comes from the restart."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]

from runner.stats import kv, variance
from runner.stats.interval import Interval, ratio
from runner.stats.refusal import Refusal

FIT = [34.0, 38.0, 41.0, 36.0, 40.0]
OURS = [700.0, 760.0, 800.0, 735.0, 790.0]
THEIRS = [781.0, 779.0, 784.0, 780.0, 776.0]


def side(values: list[float], fit: list[float], first: int | None = None) -> kv.Side:
    return kv.Side(values=values, fit=fit, first=[i == first for i in range(len(values))])


def test_what_can_run_at_once_is_the_smallest_of_three_limits() -> None:
    lengths = {"input_tokens": 512, "output_tokens": 128}
    assert kv.covariate(max_running=256, concurrency=64, kv_tokens=22_048, **lengths) == 34.45
    assert kv.covariate(max_running=256, concurrency=8, kv_tokens=22_048, **lengths) == 8
    assert kv.covariate(max_running=16, concurrency=64, kv_tokens=22_048, **lengths) == 16


def test_a_request_without_tokens_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        kv.requests_at_once(1000, 0, 0)


def test_the_slope_is_least_squares_with_a_level_per_cell() -> None:
    cells = [side(OURS, FIT), side([2 * value**1.1 for value in OURS], FIT), side(THEIRS, FIT)]
    found = kv.slope(cells)
    assert isinstance(found, kv.Slope)
    levels = np.kron(np.eye(3), np.ones((5, 1)))
    x = np.concatenate([np.log(cell.fit) for cell in cells])
    y = np.concatenate([np.log(cell.values) for cell in cells])
    expected = sm.OLS(y, np.column_stack([x, levels])).fit()
    assert (found.slope, found.se) == pytest.approx((expected.params[0], expected.bse[0]))
    assert (found.df, found.n, found.low, found.high) == (11, 15, 34, 41)


def test_within_one_cell_the_moved_ratio_is_the_prediction_of_the_regression() -> None:
    found = kv.at_equal_kv(side(OURS, FIT), side(THEIRS, [40.0] * 5))
    assert not isinstance(found, Refusal)
    ratios = np.log(OURS) - np.log(THEIRS)
    line = sm.OLS(ratios, sm.add_constant(np.log(FIT))).fit()
    frame = line.get_prediction([1.0, math.log(40.0)]).summary_frame()
    assert (found.mean, found.se) == pytest.approx((frame["mean"][0], frame["mean_se"][0]))
    assert found.df == line.df_resid


def test_the_gap_shows_both_ratios() -> None:
    found = kv.gap(side(OURS, FIT), side(THEIRS, [38.0] * 5))
    assert found.as_configured == ratio(OURS, THEIRS)
    assert isinstance(found.at_equal_kv, Interval)
    assert isinstance(found.as_configured, Interval)
    configured, equal = found.as_configured, found.at_equal_kv
    assert equal.high / equal.low < configured.high / configured.low


def test_while_everything_fits_the_gap_at_equal_kv_is_the_gap() -> None:
    found = kv.gap(side(OURS, [64.0] * 5), side(THEIRS, [64.0] * 5))
    assert found.at_equal_kv == found.as_configured


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [
        (side(OURS[:3], FIT[:3]), side(THEIRS[:3], [38.0] * 3), "too few for a slope"),
        (side(OURS, FIT, first=0), side(THEIRS, [38.0] * 5), "KV and being the first boot"),
        (side(OURS, FIT), side(THEIRS, [50.0] * 5), "never observed"),
    ],
)
def test_what_cannot_be_separated_says_to_pin_kv(
    ours: kv.Side, theirs: kv.Side, words: str
) -> None:
    found = kv.gap(ours, theirs).at_equal_kv
    assert isinstance(found, Refusal)
    assert words in found.reason
    assert "cannot be separated here; pin KV and run 5 boots" in found.reason


def test_other_cells_of_the_engine_lend_a_slope_to_three_boots() -> None:
    others = [side(OURS, FIT), side(OURS[:4], FIT[:4])]
    found = kv.gap(side(OURS[:3], FIT[:3]), side(THEIRS[:3], [38.0] * 3), others=others)
    assert isinstance(found.at_equal_kv, Interval)


def test_a_kv_that_never_varies_has_no_slope() -> None:
    assert isinstance(kv.slope([side(OURS, [38.0] * 5)]), Refusal)


def test_boots_within_two_percent_of_the_other_kv_are_found() -> None:
    assert kv.near([22_048, 25_000, 25_700], [25_282]) == (1, 2)


# Shrout and Fleiss (1979), Psychological Bulletin 86, table 2: 6 targets, 4 judges
TARGETS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def test_the_share_is_the_one_printed_for_shrout_and_fleiss() -> None:
    groups = [[math.exp(value) for value in row] for row in TARGETS]
    found = variance.anova_share("share", [groups])
    # ICC(1,1) = .17 in the paper; R's psych::ICC prints limits of -0.13 and 0.72
    assert isinstance(found, variance.VarianceShare)
    assert (round(found.share, 2), found.low, round(found.high, 2)) == (0.17, 0.0, 0.72)


def test_equal_repeats_have_the_closed_limits_of_searle() -> None:
    rng = np.random.default_rng(8)
    boots = [list(np.exp(rng.normal(rng.normal(0, 2), 1, 3))) for _ in range(12)]
    found = variance.boot_share([boots])
    assert isinstance(found, variance.VarianceShare)
    table = sm.OLS(np.log(np.ravel(boots)), np.kron(np.eye(12), np.ones((3, 1)))).fit()
    f = 3 * np.log(boots).mean(axis=1).var(ddof=1) / table.mse_resid
    from scipy.stats import f as law

    limits = [f / law.ppf(p, 11, 24) for p in (0.975, 0.025)]
    expected = [(limit - 1) / (3 + limit - 1) for limit in limits]
    assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)
    assert found.within_sd == pytest.approx(math.sqrt(table.mse_resid))


def test_three_boots_of_two_repeats_say_nearly_nothing() -> None:
    found = variance.boot_share([[[792, 800], [842, 838], [843, 845]]])
    assert isinstance(found, Refusal)
    assert found.reason.startswith("boot share not estimable (")
    assert found.bounds is not None
    assert found.bounds[1] > 0.95
    assert found.needed_boots == (7, 7)


def test_boots_of_several_cells_pool_to_20_degrees_of_freedom() -> None:
    rng = np.random.default_rng(3)
    cells = [[list(np.exp(rng.normal(level, 0.01, 2))) for _ in range(6)] for level in range(4)]
    assert isinstance(variance.boot_share(cells), variance.VarianceShare)
    short = variance.boot_share(cells[:3])
    assert isinstance(short, Refusal)
    assert short.needed_boots == (5, 5)


def test_a_negative_component_is_zero_with_its_upper_limit() -> None:
    boots = [[0.99 + shift, 1.01 + shift] for shift in np.linspace(0, 1e-6, 10)]
    found = variance.boot_share([boots])
    assert isinstance(found, variance.VarianceShare)
    assert found.negative
    assert (found.share, found.between_sd, found.low) == (0, 0, 0)
    assert found.high >= 0


def test_one_repeat_a_boot_cannot_be_divided() -> None:
    assert isinstance(variance.boot_share([[[1.0], [2.0], [3.0]]]), Refusal)


def test_the_night_share_waits_for_ten_nights() -> None:
    rng = np.random.default_rng(2)
    nights = [list(np.exp(rng.normal(rng.normal(0, 0.02), 0.01, 5))) for _ in range(10)]
    found = variance.night_share(nights)
    assert isinstance(found, variance.VarianceShare)
    assert found.low < 0.8 < found.high
    refusal = variance.night_share(nights[:9])
    assert isinstance(refusal, Refusal)
    assert refusal.reason.startswith("night share not estimable")


def share(between_sd: float, within_sd: float) -> variance.VarianceShare:
    return variance.VarianceShare(
        method="ANOVA", n=20, level=0.95, share=0.5, low=0.0, high=1.0,
        between_sd=between_sd, within_sd=within_sd, negative=between_sd == 0,
    )  # fmt: skip


def test_the_next_plan_repeats_where_the_variance_and_the_price_say_so() -> None:
    found = variance.next_plan(share(0.01, 0.02), boot_s=180, load_s=20, margin=0.05, m=1)
    assert found.repeats == 6  # sqrt(180 / 20 * 4)
    assert found.cost_s == 2 * found.boots * (180 + 6 * 20)
    assert found.boots >= 5
    assert (
        variance.next_plan(share(0.02, 0.001), boot_s=180, load_s=20, margin=0.05, m=1).repeats == 1
    )


def test_without_boot_variance_the_plan_repeats_as_often_as_allowed() -> None:
    found = variance.next_plan(
        share(0.0, 0.02), boot_s=180, load_s=20, margin=0.05, m=1, most_repeats=4
    )
    assert found.repeats == 4
