"""Workloads sent by the real client to the simulated engines: what comes back is as constructed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import tenacity

import engines
from engines import Served
from runner.boots.asks import Draw, asks_of, path_of, prompts_of
from runner.boots.measure import request_row
from runner.experiment import LoadKeys
from runner.experiment.levels import loads_of
from runner.figures.hits import Hits, hits
from runner.figures.interference import interference
from runner.figures.shared_prefix import first_and_later
from runner.figures.stored import timelines_of
from runner.figures.structured import grammar, validity
from runner.launchers.process import free_port
from runner.load import Target, Timeline
from runner.load.drive import drive
from runner.stored.rows import to_arrow
from runner.workloads import Vocabulary
from runner.workloads.structured import schema_of

VOCABULARY = Vocabulary()
BLOCK_TOKENS = {"vllm": 16, "sglang": 1}
MODEL = "m"


@dataclass(frozen=True)
class Simulated:
    """A simulated engine that serves on a port of its own."""

    engine: engines.Engine
    port: int
    folders: pytest.TempPathFactory

    def served(self, **keys: Any) -> tuple[list[Timeline], dict[int, int | None]]:
        """Send a load; return its timelines and, by request, the hits it constructs."""
        load = next(loads_of(LoadKeys.model_validate(keys)))
        draw = Draw(seed=1, boot=0, load=load.load, repeat=0)
        window, warmup = (
            asks_of(load, draw, VOCABULARY, self.engine, MODEL, purpose)
            for purpose in ("window", "warmup")
        )
        driven = drive(
            target=Target(host="127.0.0.1", port=self.port, path=path_of(load, self.engine)),
            asks=window,
            warmup=warmup,
            in_flight=load.in_flight,
            request_timeout_s=60,
            spool=self.folders.mktemp("spool"),
        )
        timelines = list(driven.timelines())
        assert driven.aborted is None
        assert {one.outcome for one in timelines} == {"ok"}
        first = sum(one.warmup for one in timelines)
        prompts = prompts_of(load, draw, VOCABULARY, "window")
        wanted = (prompt.expected_hit_tokens for prompt in prompts)
        return timelines, dict(enumerate(wanted, first))


@pytest.fixture(scope="module", params=["vllm", "sglang"])
def simulated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Simulated]:
    engine = engines.get(request.param)
    port = free_port()
    settings = {"context_tokens": 4096, "max_running": 8, "memory": {"kv_tokens": 20480}}
    arguments = engine.arguments(
        Served(model="Qwen/Qwen3-1.7B", name=MODEL, host="127.0.0.1", port=port, settings=settings)
    )
    command = [sys.executable, "-m", "engines.sim", engine.name, "--simulate", "{}"]
    with (tmp_path_factory.mktemp("server") / "log").open("wb") as log:
        server = subprocess.Popen(
            [*command, *arguments.argv],
            stdout=log,
            stderr=log,
            env={**os.environ, **arguments.env},
        )
        try:
            _wait(f"http://127.0.0.1:{port}/v1/models")
            yield Simulated(engine=engine, port=port, folders=tmp_path_factory)
        finally:
            server.kill()
            server.wait()


@tenacity.retry(stop=tenacity.stop_after_delay(60), wait=tenacity.wait_fixed(0.2), reraise=True)
def _wait(url: str) -> None:
    httpx.get(url, timeout=2).raise_for_status()


def found_hits(timelines: list[Timeline], expected: dict[int, int | None], engine: str) -> Hits:
    return hits(timelines, expected, BLOCK_TOKENS[engine])


def test_shared_prefixes_are_hit_as_constructed(simulated: Simulated) -> None:
    timelines, expected = simulated.served(
        workload="shared_prefix",
        prefixes=3,
        prefix_tokens=500,
        suffix_tokens=20,
        output_tokens=2,
        share_ratio=0.8,
        concurrency=1,
        requests=25,
        warmup=2,
    )
    found = found_hits(timelines, expected, simulated.engine.name)
    assert (found.requests, found.within) == (25, 25)
    assert found.expected_tokens > 5000
    split = first_and_later(timelines)
    assert len(split.first_s) == 3
    assert len(split.later_s) * 500 == found.expected_tokens
    assert len(split.first_s) + len(split.later_s) + len(split.alone_s) == 25


def test_later_turns_wait_for_and_hit_the_prompt_of_the_turn_before(simulated: Simulated) -> None:
    timelines, expected = simulated.served(
        workload="multi_turn",
        sessions=3,
        turns=4,
        user_tokens=50,
        answer_tokens=5,
        think_s=0.05,
        concurrency=3,
        requests=12,
        warmup=0,
    )
    found = found_hits(timelines, expected, simulated.engine.name)
    assert (found.requests, found.within) == (12, 12)
    in_order = sorted(timelines, key=lambda one: one.request)
    for turn, before in zip(in_order[3:], in_order[:-3], strict=True):
        assert turn.group == before.group
        assert turn.sent_ns >= before.ended_ns + 50_000_000


def test_a_log_s_requests_leave_at_its_own_times(simulated: Simulated) -> None:
    timelines, _ = simulated.served(
        workload="trace", file="tests/traces/azure.csv", speed=5.0, warmup=0
    )
    in_order = sorted(timelines, key=lambda one: one.request)
    intended = [one.intended_ns or 0 for one in in_order]
    assert [(at - intended[0]) / 1e9 for at in intended] == [0.0, 0.3, 0.85]
    assert [one.output_tokens for one in in_order] == [30, 8, 45]
    assert all(one.sent_ns >= (one.intended_ns or 0) for one in in_order)


def test_random_prompts_hit_nothing(simulated: Simulated) -> None:
    timelines, expected = simulated.served(
        workload="random", input_tokens=300, output_tokens=2, concurrency=4, requests=20
    )
    found = found_hits(timelines, expected, simulated.engine.name)
    assert (found.requests, found.expected_tokens) == (20, 0)
    assert found.surplus_ratio < 0.01


def test_injected_prompts_overlap_a_victim_that_decodes(simulated: Simulated) -> None:
    timelines, _ = simulated.served(
        workload="interference",
        victim_input_tokens=16,
        victim_output_tokens=1000,
        steady_s=0.3,
        injected_input_tokens=3500,
        injected_output_tokens=2,
        rate_per_s=4.0,
        arrivals="constant",
        requests=4,
        warmup=0,
    )
    found = interference(timelines)
    assert found.void is None
    assert (len(found.victims), found.injected, found.overlapped) == (1, 3, 3)
    inside, typical = found.largest_inside_s, found.victims[0].typical_s
    assert inside is not None
    assert typical is not None
    assert inside > typical


def test_chats_are_answered_and_their_grammars_told_apart(simulated: Simulated) -> None:
    timelines, expected = simulated.served(
        workload="structured",
        constrained=True,
        schemas=["finite", "person"],
        output_tokens=120,
        concurrency=2,
        requests=6,
        warmup=0,
    )
    assert set(expected.values()) == {None}
    assert all(one.input_tokens and one.output_tokens for one in timelines)
    found = grammar(timelines)
    assert len(found.cold_s) >= 2
    assert len(found.cold_s) + len(found.warm_s) == 6
    answers = [(one, one.answer or "") for one in timelines]
    judged = validity(answers, {name: schema_of(name) for name in ("finite", "person")}, 120)
    assert (judged.finished, judged.json, judged.valid) == (6, 6, 6)


def test_stored_requests_are_the_same_timelines_again(simulated: Simulated) -> None:
    timelines, _ = simulated.served(
        workload="random", input_tokens=30, output_tokens=5, rate_per_s=50.0, requests=5
    )
    keys = {"cell_id": "c", "boot": 0, "attempt": 1, "load": "x", "repeat": 0}
    rows = [request_row(one, 0, keys) for one in timelines]
    table = to_arrow("requests", rows)
    assert list(timelines_of(table.to_pylist())) == timelines
    framed = [dict(row) for _, row in table.to_pandas().iterrows()]
    assert list(timelines_of(framed)) == timelines
