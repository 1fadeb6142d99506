"""Why an open loop shows a queue that a closed loop hides: one server by arithmetic.

A model, not a measurement: it stands in the report of an experiment that asks one workload in
closed and in open loop, and says what such loads show even of the simplest server.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

import pandas as pd

from runner.load.arrivals import POISSON, Flat, Gamma, Law, due_times
from runner.stats.queue import Latency, closed_loop, latency, one_state, over_seeds
from runner.stored.frames import Results
from runner.tables import Centre, Shown, Table
from runner.tables.measured import measured

SERVICE_S: Final = 0.25
REQUESTS: Final = 4000
RATES_PER_S: Final = (3.0, 4.5, 5.0)
USERS: Final = (4, 16)
SEEDS: Final = range(40)
BURSTINESS: Final = 0.25

_ABOVE: Final = (
    "A model, not a measurement: one server that takes 0.25 s a request, 4,000 requests; it is full"
    " at 4 a second."
)
_NOTE: Final = (
    "Seed 1: Python's random.Random(1), one state running through the rates in order. Our arrivals:"
    f" those of this load client, median [smallest - largest] of {len(SEEDS)} seeds; bunched:"
    f" gamma, burstiness {BURSTINESS:g}. Over capacity the figure only tells how long one waited:"
    " the queue grows until the last request. A closed loop sends only once answered, so its"
    " latency is users x 0.25 s whatever people would have wanted."
)


def build(results: Results) -> Shown | None:
    """Show the model where one workload was asked in closed and in open loop."""
    kinds = measured(results).groupby("workload").level_kind.agg(set)
    if not any({"concurrency", "rate_per_s"} <= kind for kind in kinds):
        return None
    return Shown(frame=pd.DataFrame(_rows()), above=[_ABOVE], notes=[_NOTE], keys=1)


@functools.cache
def _rows() -> tuple[dict[str, Any], ...]:
    return (*_open(), *_closed())


def _open() -> Iterator[dict[str, Any]]:
    seeded = one_state(RATES_PER_S, REQUESTS, SERVICE_S, seed=1)
    for rate_per_s in RATES_PER_S:
        for law, words in ((POISSON, ""), (Gamma(BURSTINESS), ", bunched")):
            ours = over_seeds(_times(law, rate_per_s), REQUESTS, SERVICE_S, SEEDS)
            yield {
                "loop": f"open, {rate_per_s:g} a second{words}",
                **_figures(seeded[rate_per_s] if not words else None),
                "our arrivals: mean s": _spread(ours, "mean_s"),
                "our arrivals: p99 s": _spread(ours, "p99_s"),
            }


def _closed() -> Iterator[dict[str, Any]]:
    for users in USERS:
        found = latency(closed_loop(users, REQUESTS, SERVICE_S))
        yield {"loop": f"closed, {users} users", **_figures(found)}


def _figures(found: Latency | None) -> dict[str, float | None]:
    return {
        "seed 1: mean s": found.mean_s if found else None,
        "p99 s": found.p99_s if found else None,
    }


def _times(law: Law, rate_per_s: float) -> Callable[[random.Random], Iterator[float]]:
    return lambda rng: due_times(law, Flat(rate_per_s), rng)


def _spread(found: list[Latency], name: str) -> Centre:
    ordered = sorted(getattr(one, name) for one in found)
    middle = ordered[len(ordered) // 2]
    return Centre(middle=middle, low=ordered[0], high=ordered[-1], boots=len(ordered))


TABLE = Table(
    name="loops",
    title="Open and closed loop, a model of one server",
    order=85,
    build=build,
)
