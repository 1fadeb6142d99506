"""The queue model: the article's figures exactly, and what one seed is worth."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import tables
from runner.load.arrivals import POISSON, Flat, due_times
from runner.stats.queue import closed_loop, latency, one_state, open_loop, over_seeds
from tests.stored import Stored

REQUESTS = 4000
SERVICE_S = 0.25


def test_the_articles_open_loops_come_out_exactly() -> None:
    found = one_state([3, 4.5, 5], REQUESTS, SERVICE_S, seed=1)
    rounded = {rate: (round(one.mean_s, 2), round(one.p99_s, 2)) for rate, one in found.items()}
    assert rounded == {3: (0.64, 2.26), 4.5: (57.43, 114.55), 5: (100.70, 196.32)}


@pytest.mark.parametrize(("users", "figures"), [(4, (1.00, 1.00)), (16, (3.99, 4.00))])
def test_the_articles_closed_loops_come_out_exactly(
    users: int, figures: tuple[float, float]
) -> None:
    found = latency(closed_loop(users, REQUESTS, SERVICE_S))
    assert (round(found.mean_s, 2), round(found.p99_s, 2)) == figures


def test_our_own_arrivals_agree_with_theory_below_capacity() -> None:
    """The mean of M/D/1 is service + load x service / (2 (1 - load)): 0.625 s at a load of 0.75."""
    found = over_seeds(lambda rng: due_times(POISSON, Flat(3), rng), REQUESTS, SERVICE_S, range(60))
    means = sorted(one.mean_s for one in found)
    assert sum(means) / len(means) == pytest.approx(0.625, abs=0.03)
    assert means[0] < 0.59
    assert means[-1] > 0.66


def test_above_capacity_the_seed_moves_the_figure_and_never_hides_the_overload() -> None:
    found = over_seeds(lambda rng: due_times(POISSON, Flat(5), rng), REQUESTS, SERVICE_S, range(40))
    means = [one.mean_s for one in found]
    assert sum(means) / len(means) == pytest.approx(100, rel=0.1)
    assert max(means) - min(means) > 10
    assert min(means) > 60


@given(
    gaps=st.lists(st.floats(0, 5), max_size=40),
    service_s=st.floats(0.01, 3),
    servers=st.integers(1, 4),
)
def test_nobody_is_served_faster_than_the_service_or_out_of_turn(
    gaps: list[float], service_s: float, servers: int
) -> None:
    arrivals = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    latencies = open_loop(arrivals, service_s, servers)
    assert all(one >= service_s - 1e-9 for one in latencies)
    ends = [at + took for at, took in zip(arrivals, latencies, strict=True)]
    assert all(a <= b + 1e-9 for a, b in pairwise(ends))
    more = open_loop(arrivals, service_s, servers + 1)
    assert all(b <= a + 1e-9 for a, b in zip(latencies, more, strict=True))


@given(users=st.integers(1, 20), servers=st.integers(1, 20))
def test_a_closed_loop_is_never_slower_than_its_users_make_it(users: int, servers: int) -> None:
    latencies = closed_loop(users, 200, 0.25, servers)
    assert max(latencies) <= 0.25 * -(-users // servers) + 1e-9
    assert len(latencies) == 200


def test_the_same_seed_gives_the_same_latencies() -> None:
    def times(rng: random.Random) -> list[float]:
        return sorted(rng.random() for _ in range(50))

    assert over_seeds(times, 50, 0.1, [7]) == over_seeds(times, 50, 0.1, [7])


def test_the_model_stands_in_a_report_of_both_loops_and_is_called_one(tmp_path: Path) -> None:
    stored = _stored(tmp_path)
    cell = stored.cell("vllm")
    closed = {"load": "closed@c8", "workload": "random"}
    stored.boot(cell, 0, [closed], kv_tokens=60_000)
    assert tables.get("loops").build(stored.read()) is None
    opened = {"load": "poisson@r4", "workload": "random", "level_kind": "rate_per_s"}
    stored.boot(cell, 1, [closed, opened], kv_tokens=60_000)
    shown = tables.get("loops").build(stored.read())
    assert shown is not None
    assert "A model, not a measurement" in shown.above[0]
    rows = {row["loop"]: row for row in shown.frame.to_dict("records")}
    figures = {
        loop: (round(row["seed 1: mean s"], 2), round(row["p99 s"], 2))
        for loop, row in rows.items()
        if "bunched" not in loop
    }
    assert figures == {
        "open, 3 a second": (0.64, 2.26),
        "open, 4.5 a second": (57.43, 114.55),
        "open, 5 a second": (100.70, 196.32),
        "closed, 4 users": (1.00, 1.00),
        "closed, 16 users": (3.99, 4.00),
    }
    ours = rows["open, 3 a second"]["our arrivals: mean s"]
    assert ours.low < 0.625 < ours.high
    assert ours.boots == 40


def _stored(folder: Path) -> Stored:
    return Stored(folder)
