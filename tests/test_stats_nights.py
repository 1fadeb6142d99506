"""Nights against nights: the A/A audit, the reference cell, the history, change points."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm  # type: ignore[import-untyped]
from scipy import stats

from runner.stats import changes, nights
from runner.stats.interval import Interval, LogMean, geometric, interval, ratio
from runner.stats.refusal import Refusal
from runner.stats.verdict import Comparison, Rules, verdicts

BOOTS = [100.0, 101.0, 99.0, 100.5, 99.5]
EARLIER = [100.0, 102.0, 99.0, 101.0, 98.5, 100.5, 101.5, 99.5, 100.2, 98.9]


def test_an_alarm_rate_is_bounded_from_above() -> None:
    found = nights.alarm_rate(60, 2)
    exact = stats.binomtest(2, 60, alternative="less").proportion_ci(0.95)
    assert found.at_most == pytest.approx(exact.high)
    assert str(found) == "60 nights, 2 alarms, rate at most 10 %"


def test_a_margin_under_the_aa_half_width_cannot_be_resolved() -> None:
    same = ratio([100.0, 104.0, 98.0, 101.0, 99.0], BOOTS)
    assert isinstance(same, Interval)
    refusal = nights.unresolved(0.01, same)
    assert refusal is not None
    assert refusal.reason.startswith("this bench cannot resolve 1 %")
    assert nights.unresolved(0.2, same) is None
    assert same.half_width_ratio == pytest.approx(math.sqrt(same.high / same.low) - 1)


def test_what_a_night_does_to_both_cells_cancels() -> None:
    then = nights.Night(cell=[2 * boot for boot in BOOTS], reference=BOOTS)
    slow = [0.9 * boot for boot in BOOTS]
    now = nights.Night(cell=[2 * 1.1 * boot for boot in slow], reference=slow)
    found = nights.against_reference(now, then)
    assert isinstance(found, LogMean)
    assert math.exp(found.mean) == pytest.approx(1.1)


def test_the_reference_road_is_welch_on_the_log_ratios_of_both_nights() -> None:
    rng = np.random.default_rng(6)
    cells = np.exp(rng.normal(0, 0.01, (4, 5)))
    found = nights.against_reference(
        nights.Night(cell=cells[0], reference=cells[1]),
        nights.Night(cell=cells[2], reference=cells[3]),
    )
    expected = stats.ttest_ind(
        np.log(cells[0] / cells[1]), np.log(cells[2] / cells[3]), equal_var=False
    ).confidence_interval()
    limits = interval(found)
    assert isinstance(limits, Interval)
    assert (math.log(limits.low), math.log(limits.high)) == pytest.approx(
        (expected.low, expected.high)
    )


def test_the_reference_road_needs_5_blocks_in_each_night() -> None:
    short = nights.Night(cell=BOOTS[:4], reference=BOOTS[:4])
    found = nights.against_reference(short, nights.Night(cell=BOOTS, reference=BOOTS))
    assert isinstance(found, Refusal)
    assert found.needed_boots == (1, 1)


def test_the_history_road_is_the_prediction_interval_of_statsmodels() -> None:
    found = nights.against_history([103.0, 104.0], EARLIER)
    assert isinstance(found, LogMean)
    logs = np.log(EARLIER)
    frame = sm.OLS(logs, np.ones(10)).fit().get_prediction([1.0]).summary_frame(alpha=0.05)
    limits = interval(found)
    assert isinstance(limits, Interval)
    tonight = float(np.log([103.0, 104.0]).mean())
    assert tonight - math.log(limits.high) == pytest.approx(frame["obs_ci_lower"][0])
    assert tonight - math.log(limits.low) == pytest.approx(frame["obs_ci_upper"][0])
    assert found.unit == "nights"


def test_nine_nights_are_no_history() -> None:
    found = nights.against_history(BOOTS, EARLIER[:9])
    assert isinstance(found, Refusal)
    assert "or a reference cell" in found.reason


def test_a_night_without_boots_is_refused() -> None:
    assert isinstance(nights.against_history([], EARLIER), Refusal)


def test_the_reference_goes_before_the_history_and_neither_is_a_refusal() -> None:
    night = nights.Night(cell=BOOTS, reference=BOOTS)
    by_reference = nights.between_nights(night, night, BOOTS, EARLIER)
    assert isinstance(by_reference, LogMean)
    assert by_reference.unit == "boots"
    by_history = nights.between_nights(None, night, BOOTS, EARLIER)
    assert isinstance(by_history, LogMean)
    assert by_history.unit == "nights"
    assert isinstance(nights.between_nights(None, None, BOOTS, EARLIER[:3]), Refusal)


def test_a_night_within_the_history_is_not_enough_data_and_boots_do_not_help() -> None:
    found = nights.against_history([100.0], EARLIER)
    verdict = verdicts([Comparison(name="night", mean=found)], Rules(margin=0.001))[0]
    assert verdict.word == "not enough data"
    assert verdict.needed_boots is None


# drawn once: 12 nights about 100, then 9 about 103
SERIES = [
    102.0, 97.4, 100.4, 99.4, 99.5, 99.8, 98.0, 99.8, 99.1, 103.3, 100.2, 99.6,
    102.7, 102.3, 101.9, 102.6, 103.5, 102.8, 104.0, 102.8, 103.0,
]  # fmt: skip


def test_the_best_split_is_the_one_that_otava_prints() -> None:
    place, q = changes.best_split(np.array(SERIES))
    # apache-otava 0.8.0: PairDistanceCalculator(series).get_candidate_change_point(slice(None))
    assert place == 12
    assert q == pytest.approx(18.859740259740256)


def test_the_best_split_is_the_energy_distance_of_every_pair_of_parts() -> None:
    values = np.random.default_rng(1).normal(size=11)

    def q(x: np.ndarray, y: np.ndarray) -> float:
        between = np.abs(x[:, None] - y[None, :]).mean()
        inside = [np.abs(v[:, None] - v[None, :]).sum() / (len(v) * (len(v) - 1)) for v in (x, y)]
        return float(len(x) * len(y) / (len(x) + len(y)) * (2 * between - sum(inside)))

    every = {
        (q(values[:tau], values[tau:kappa]), tau)
        for tau in range(2, 10)
        for kappa in range(tau + 2, 12)
    }
    best, tau = max(every)
    place, found = changes.best_split(values)
    assert place == tau
    assert found == pytest.approx(best)


def test_a_change_is_told_with_its_night_and_size() -> None:
    found = changes.changes(SERIES, margin=0.02)
    assert isinstance(found, tuple)
    assert [change.night for change in found] == [12]
    assert str(found[0]) == "+3.0 % since about night 13"
    expected = stats.ttest_ind(np.log(SERIES[:12]), np.log(SERIES[12:]))
    assert found[0].p == pytest.approx(expected.pvalue)


def test_a_change_under_the_margin_is_not_told() -> None:
    assert changes.changes(SERIES, margin=0.05) == ()


def test_two_changes_are_told_apart() -> None:
    wobble = np.tile([1.0, 1.001, 0.999], 10)
    found = changes.changes(wobble * np.repeat([100.0, 110.0, 95.0], 10))
    assert isinstance(found, tuple)
    assert [change.night for change in found] == [10, 20]
    assert found[0].ratio == pytest.approx(1.1, rel=0.01)


def test_under_20_nights_no_change_is_looked_for() -> None:
    found = changes.alarm(SERIES[:19])
    assert isinstance(found, Refusal)
    assert found.reason == "19 nights; change points need 20"
    assert found.needed_boots is None


def test_an_alarm_needs_two_nights_running() -> None:
    flat = np.tile([100.0, 100.1, 99.9], 10)
    stepped = np.append(flat, [112.0, 112.1, 111.9])
    heard = [changes.alarm(stepped[:n]) is not None for n in range(29, 34)]
    assert heard == [False, False, False, False, True]


def test_equal_nights_all_round_change_nothing() -> None:
    assert changes.changes([100.0] * 25) == ()
    assert changes.alarm([100.0] * 25) is None


def test_a_night_mean_is_the_geometric_mean_of_its_boots() -> None:
    found = geometric(BOOTS)
    assert isinstance(found, Interval)
    assert found.centre == pytest.approx(stats.gmean(BOOTS))
