"""One queue, many servers, a fixed service time: why open and closed loop tell different stories.

A model, not a measurement. It takes any arrival times, so that the times the load client draws can
be held against those of anyone's illustration.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Waiting and service of all requests together: mean and nearest-rank p99, in seconds."""

    mean_s: float
    p99_s: float


def open_loop(arrivals_s: Iterable[float], service_s: float, servers: int = 1) -> list[float]:
    """Return the latency of each request, first come, first served.

    Args:
        arrivals_s: when each request comes, never decreasing.
        service_s: how long each is served.
        servers: how many are served at once.
    """
    free_s = [0.0] * servers
    latencies_s = []
    for arrival_s in arrivals_s:
        ended_s = max(arrival_s, free_s[0]) + service_s
        heapq.heapreplace(free_s, ended_s)
        latencies_s.append(ended_s - arrival_s)
    return latencies_s


def closed_loop(users: int, requests: int, service_s: float, servers: int = 1) -> list[float]:
    """Return the latency of each request where every user sends its next as the last one ends."""
    ready_s = [0.0] * users
    free_s = [0.0] * servers
    latencies_s = []
    for _ in range(requests):
        sent_s = ready_s[0]
        ended_s = max(sent_s, free_s[0]) + service_s
        heapq.heapreplace(free_s, ended_s)
        heapq.heapreplace(ready_s, ended_s)
        latencies_s.append(ended_s - sent_s)
    return latencies_s


def latency(latencies_s: Sequence[float]) -> Latency:
    """Return mean and p99 of at least one latency."""
    rank = math.ceil(0.99 * len(latencies_s))
    return Latency(mean_s=fmean(latencies_s), p99_s=sorted(latencies_s)[rank - 1])


def exponential_times(rng: random.Random, rate_per_s: float) -> Iterator[float]:
    """Yield the times of a Poisson process without end, each gap drawn as it is needed."""
    time_s = 0.0
    while True:
        time_s += rng.expovariate(rate_per_s)
        yield time_s


def one_state(
    rates_per_s: Iterable[float], requests: int, service_s: float, seed: int
) -> dict[float, Latency]:
    """Return the latency at each rate, one random state running through all of them in order."""
    rng = random.Random(seed)  # noqa: S311 - arrivals, not secrets
    return {
        rate: latency(open_loop(islice(exponential_times(rng, rate), requests), service_s))
        for rate in rates_per_s
    }


def over_seeds(
    times: Callable[[random.Random], Iterable[float]],
    requests: int,
    service_s: float,
    seeds: Iterable[int],
) -> list[Latency]:
    """Return the latency for each seed: what one seed's figure is worth.

    Args:
        times: draws arrival times, at least as many as requests.
        requests: how many requests each seed has.
        service_s: service time.
        seeds: which seeds.
    """
    return [
        latency(open_loop(islice(times(random.Random(seed)), requests), service_s))  # noqa: S311
        for seed in seeds
    ]
