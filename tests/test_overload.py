"""Overload is noticed from the requests in flight, and a busy server is left alone."""

from __future__ import annotations

import random
from bisect import bisect_right
from itertools import islice

import pytest

from runner.boots.overload import InFlight, overloaded
from runner.load.arrivals import POISSON, Flat, due_times
from runner.stats.queue import open_loop


def sampled(
    rate_per_s: float, seed: int, service_s: float, servers: int, length_s: float
) -> list[InFlight]:
    """Return what a client would see twice a second of a server for `servers` at once."""
    times = due_times(POISSON, Flat(rate_per_s), random.Random(seed))
    arrivals = list(islice(times, round(rate_per_s * length_s * 1.2)))
    latencies = open_loop(arrivals, service_s, servers)
    ends = sorted(at + took for at, took in zip(arrivals, latencies, strict=True))
    moments = [step / 2 for step in range(int(length_s * 2))]
    counts = [bisect_right(arrivals, at_s) - bisect_right(ends, at_s) for at_s in moments]
    return [InFlight(at_s=at_s, requests=n) for at_s, n in zip(moments, counts, strict=True)]


@pytest.mark.parametrize(
    ("load", "fewest", "most"),
    [(0.5, 0, 0), (0.7, 0, 0), (0.9, 0, 2), (1.5, 38, 40), (2.0, 40, 40)],
)
def test_servers_over_capacity_are_noticed_and_those_under_it_are_not(
    load: float, fewest: int, most: int
) -> None:
    noticed = sum(
        overloaded(sampled(8 * load, seed, 2.0, 16, 60), 8 * load, settle_s=6) for seed in range(40)
    )
    assert fewest <= noticed <= most


def test_a_server_that_fills_up_to_its_level_is_not_over_capacity() -> None:
    samples = [InFlight(at_s=s / 2, requests=min(100, 10 * s)) for s in range(100)]
    assert not overloaded(samples, 20, settle_s=10)


def test_a_queue_that_grows_by_a_tenth_of_the_arrivals_is_noticed() -> None:
    samples = [InFlight(at_s=float(s), requests=20 + 2 * s) for s in range(200)]
    assert overloaded(samples, 20, settle_s=10)


@pytest.mark.parametrize(
    "samples", [[], [InFlight(at_s=float(s), requests=9 * s) for s in range(7)]]
)
def test_too_few_samples_say_nothing(samples: list[InFlight]) -> None:
    assert not overloaded(samples, 5, settle_s=0)


def test_samples_of_one_moment_say_nothing() -> None:
    assert not overloaded([InFlight(at_s=3.0, requests=n) for n in range(50)], 5, settle_s=0)
