"""Latencies that move within a load are named, and stationary ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from runner.boots.moving import doubts_about_drift
from runner.experiment import LoadKeys
from runner.experiment.levels import loads_of
from runner.load import Timeline
from runner.stats.refusal import Refusal
from runner.stats.trend import Trend, over_time

LOADS = 1000


def correlated(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    """Return latencies around 1 s that vary by 10 % and whose neighbours correlate by `phi`."""
    own = rng.normal(0, 0.1 * np.sqrt(1 - phi**2), n)
    noise = np.empty(n)
    noise[0] = rng.normal(0, 0.1)
    for place in range(1, n):
        noise[place] = phi * noise[place - 1] + own[place]
    return np.exp(noise)


def named(latencies: np.ndarray) -> bool:
    found = over_time(list(latencies))
    assert isinstance(found, Trend)
    return found.named


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_under_one_in_a_hundred_stationary_loads_is_named(phi: float) -> None:
    rng = np.random.default_rng(1)
    alarms = sum(named(correlated(rng, 200, phi)) for _ in range(LOADS))
    assert alarms <= 0.01 * LOADS


def test_a_load_that_slows_by_half_is_named_and_how_far() -> None:
    rng = np.random.default_rng(2)
    slowing = [correlated(rng, 400, 0.5) * np.linspace(1, 1.5, 400) for _ in range(100)]
    assert sum(map(named, slowing)) >= 95
    changes = [over_time(list(one)).change for one in slowing]  # type: ignore[union-attr]
    assert 0.3 < float(np.median(changes)) < 0.45


def test_a_drift_that_is_sure_but_small_is_not_worth_a_word() -> None:
    found = over_time(list(np.linspace(1, 1.05, 400)))
    assert isinstance(found, Trend)
    assert found.p < 0.001
    assert not found.named


def test_few_requests_have_no_trend() -> None:
    assert isinstance(over_time([1.0] * 199), Refusal)


def raised(slowing: float, **level: float) -> list[str]:
    """Return the doubts about 400 requests, the last of which is slower than the first."""
    asked = {"workload": "random", "input_tokens": 8, "output_tokens": 8, "requests": 400}
    (load,) = loads_of(LoadKeys.model_validate({**asked, **level}))
    noise = correlated(np.random.default_rng(3), 400, 0.5)
    took_s = noise * np.linspace(1, slowing, 400)
    sent = [
        Timeline(
            request=number,
            sent_ns=number * 10**9,
            last_ns=number * 10**9 + int(seconds * 1e9),
            outcome="ok",
        )
        for number, seconds in enumerate(took_s)
    ]
    return [one.name for one in doubts_about_drift(load, sent)]


def test_a_load_that_drifts_is_a_doubt_and_a_burst_whose_queue_drains_is_none() -> None:
    assert raised(1.5, concurrency=8) == ["drift_within_load"]
    assert raised(1.0, concurrency=8) == []
    assert raised(1.5, burst=400) == []
