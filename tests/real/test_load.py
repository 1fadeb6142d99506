"""Requests and a small load against a real engine: exact lengths, and cache hits as constructed."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.boots.asks import Draw
from runner.boots.measure import Client, Live, measure
from runner.load import Target
from runner.preflight.build import vocabulary_of
from runner.workloads import Vocabulary

if TYPE_CHECKING:
    from tests.real.booting import Booted

pytestmark = [pytest.mark.docker, pytest.mark.real]

VOCABULARY = vocabulary_of({"vocab_size": 4096})


@pytest.fixture
def rng() -> random.Random:
    return random.Random()  # other prompts than any test or run before sent


def cached(usage: dict[str, dict[str, int] | None]) -> int:
    details = usage["prompt_tokens_details"]
    assert details is not None, "cached tokens are not reported"
    return details["cached_tokens"]


@pytest.mark.parametrize(("input_tokens", "output_tokens"), [(1, 1), (127, 3), (1000, 17)])
def test_lengths_are_exactly_those_asked(
    booted: Booted, rng: random.Random, input_tokens: int, output_tokens: int
) -> None:
    usage = booted.complete(VOCABULARY.ids(rng, input_tokens), output_tokens)
    assert usage["prompt_tokens"] == input_tokens
    assert usage["completion_tokens"] == output_tokens


def test_the_second_use_of_a_prefix_is_a_hit_until_the_cache_is_flushed(
    booted: Booted, rng: random.Random
) -> None:
    prefix, block = VOCABULARY.ids(rng, 512), booted.facts("block_tokens")["metrics"].value
    first, second = [*prefix, *VOCABULARY.ids(rng, 64)], [*prefix, *VOCABULARY.ids(rng, 64)]
    before = booted.counters()
    assert cached(booted.complete(first, 1)) == 0
    assert cached(booted.complete(second, 1)) == 512
    after = booted.counters()
    assert 512 % int(block) == 0
    assert after["prefix_hit_tokens"] - before["prefix_hit_tokens"] == 512
    assert after["prefix_query_tokens"] - before["prefix_query_tokens"] == 2 * 576
    assert booted.flush() is True
    assert cached(booted.complete(second, 1)) == 0


def test_a_closed_loop_gets_exact_lengths_and_hits_nothing(booted: Booted, tmp_path: Path) -> None:
    load = booted.plan.loads[0]
    done = measure(load, _draw(load.load), _live(booted), client=Client(), spool=tmp_path)
    requests = list(done.requests)
    window = [row for row in requests if not row["warmup"]]
    assert done.aborted is None
    assert len(window) == 24
    assert {row["outcome"] for row in requests} == {"ok"}
    assert {(row["input_tokens"], row["output_tokens"]) for row in requests} == {(128, 16)}
    assert done.row["flushed"] is True
    assert done.row["prefix_query_tokens"] == len(requests) * 128
    # where a page is one token, two prompts may begin with the same one by chance
    hits = sum(row["cached_tokens"] for row in requests)
    assert done.row["prefix_hit_tokens"] == hits < 0.01 * len(requests) * 128
    assert done.row["way"] == "container"
    assert done.row["tokens_by_chunks"] == done.row["tokens_by_usage"] == len(requests) * 16


def _draw(load: str) -> Draw:
    return Draw(seed=time.time_ns(), boot=0, load=load, repeat=0)


def _live(booted: Booted) -> Live:
    server, cell = booted.server, booted.cell
    return Live(
        engine=cell.engine,
        model=cell.served_name,
        control_url=server.control_url,
        target=Target(
            host=server.load_host,
            port=server.load_port,
            path=cell.engine.completions_path,
            way=server.way,
        ),
        vocabulary=Vocabulary(low=VOCABULARY.low, high=VOCABULARY.high),
        ready_ns=time.monotonic_ns(),
        died=lambda: None,
    )
