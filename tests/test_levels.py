"""A section of loads becomes one load for each level, with requests counted."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.experiment import LoadKeys
from runner.experiment.levels import load_ids, loads_of
from runner.workloads.lengths import Distribution, drawn, longest

LENGTHS = {"workload": "random", "input_tokens": 16, "output_tokens": 8}


def section(**keys: Any) -> LoadKeys:
    return LoadKeys.model_validate({**LENGTHS, **keys})


def test_each_level_is_a_load_with_its_own_number_of_requests() -> None:
    keys = section(concurrency=[1, 8, 32], requests={"per_stream": 4, "at_least": 100})
    found = [(load.load, load.in_flight, load.requests) for load in loads_of(keys)]
    assert found == [("random@c1", 1, 100), ("random@c8", 8, 100), ("random@c32", 32, 128)]


def test_warm_up_is_counted_for_each_stream_or_given_plainly() -> None:
    assert [load.warmup_requests for load in loads_of(section(concurrency=8, requests=9))] == [8]
    keys = section(concurrency=8, requests=9, warmup=3)
    assert [load.warmup_requests for load in loads_of(keys)] == [3]


def test_a_rate_holds_nothing_in_flight_and_may_be_ended_by_time() -> None:
    (load,) = loads_of(section(rate_per_s=2.5, duration_s=60))
    assert (load.load, load.level, load.in_flight) == ("random@r2.5", 2.5, None)
    assert (load.requests, load.duration_s) == (None, 60)


def test_a_name_replaces_the_workload_in_the_id() -> None:
    assert load_ids(section(name="short", concurrency=8, requests=9)) == ["short@c8"]


@given(st.sets(st.floats(1e-6, 1e9), min_size=2, max_size=5))
def test_different_rates_have_different_ids(rates: set[float]) -> None:
    ids = load_ids(section(rate_per_s=sorted(rates), requests=9))
    assert len(set(ids)) == len(rates)


def test_a_search_is_one_load_whose_probes_are_loads_at_levels_of_their_own() -> None:
    span = {"rate_per_s": {"low": 1, "high": 64}, "slo": {"ttft_p99_s": 2}, "settle_s": 15}
    (search,) = loads_of(section(search=span))
    assert (search.load, search.requests, search.probe) == ("random@search", 299, None)
    assert search.range is not None
    probe = search.at(11.3137085, 3)
    assert (probe.load, probe.level, probe.in_flight) == ("random@r11.31#3", 11.3137085, None)
    assert (probe.requests, probe.warmup_requests, probe.range) == (299, 170, None)


def test_a_search_over_streams_counts_requests_for_each_of_them() -> None:
    span = {"concurrency": {"low": 1, "high": 256}, "slo": {"tpot_p99_ms": 50}}
    requests = {"per_stream": 4, "at_least": 300}
    (search,) = loads_of(section(search=span, requests=requests))
    probe = search.at(128, 7)
    assert (probe.load, probe.in_flight) == ("random@c128#7", 128)
    assert (probe.requests, probe.warmup_requests) == (512, 128)


@pytest.mark.parametrize(
    "changed", [{"within_ratio": 0.1}, {"settle_s": 3}, {"slo": {"ttft_p99_s": 3}}]
)
def test_another_search_is_asked_otherwise(changed: dict[str, Any]) -> None:
    span = {"rate_per_s": {"low": 1, "high": 64}, "slo": {"ttft_p99_s": 2}}
    (before,) = loads_of(section(search=span))
    (after,) = loads_of(section(search={**span, **changed}))
    assert before.asked != after.asked


def test_large_levels_keep_every_digit() -> None:
    ids = load_ids(section(concurrency=[1234567, 1234568], requests=9))
    assert ids == ["random@c1234567", "random@c1234568"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"concurrency": 8, "requests": 100}, {"concurrency": [8], "requests": 100}),
        (
            {"concurrency": 8, "requests": 100},
            {"concurrency": 8, "requests": {"per_stream": 4, "at_least": 100}},
        ),
        ({"concurrency": 8, "requests": 9}, {"concurrency": 8, "requests": 9, "warmup": 8}),
        ({"concurrency": 8, "requests": 9}, {"concurrency": 8, "requests": 9, "repeats": 1}),
    ],
)
def test_the_same_work_written_otherwise_is_asked_alike(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    asked = [[load.asked for load in loads_of(section(**keys))] for keys in (one, other)]
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"input_tokens": 17},
        {"requests": 10},
        {"warmup": 0},
        {"repeats": 2},
        {"flush": False},
        {"sampling": {"temperature": 0.7}},
        {"name": "other"},
    ],
)
def test_other_work_is_asked_otherwise(changed: dict[str, Any]) -> None:
    (before,) = loads_of(section(concurrency=8, requests=9))
    (after,) = loads_of(section(**{"concurrency": 8, "requests": 9, **changed}))
    assert before.asked != after.asked


@given(
    st.sampled_from([{"uniform": (5, 9)}, {"histogram": {"bounds": (1, 7, 20), "weights": (1, 2)}}])
    | st.just({"normal": {"mean": 50, "sd": 30}, "at_most": 60}),
    st.integers(0, 999),
)
def test_no_drawn_length_is_over_the_longest(law: dict[str, Any], seed: int) -> None:
    length = Distribution.model_validate(law)
    rng = random.Random(seed)
    assert max(drawn(length, rng) for _ in range(50)) <= longest(length)
