"""What is judged of rehearsals on real engines, on made-up frames: each effect can be missed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest

from runner.load import Timeline
from tests.real.effects import Effect, figures, judged


def holds(effects: Iterable[Effect], engine: str = "vllm") -> list[bool | None]:
    return [effect.holds for effect in effects if effect.name.startswith(engine)]


def frame(*rows: dict[str, Any], **usual: Any) -> pd.DataFrame:
    return pd.DataFrame([{"engine": "vllm", **usual, **row} for row in rows])


@pytest.mark.parametrize(
    ("on", "off", "expected"),
    [
        ([0.1], [1.0], [True, True]),
        ([0.1, 0.2, 3.0], [1.0, 9.0, 0.9], [True, True]),  # one noisy boot moves no median
        ([0.6], [1.0], [False, True]),
        ([0.1], [0.5], [True, False]),
        ([0.1], [1.3], [True, False]),
        ([0.1], [], [True, None]),
        ([None], [1.0], [None, True]),
    ],
)
def test_the_cache_saves_time_to_first_token_only_where_it_is_on(
    on: list[float | None], off: list[float], expected: list[bool | None]
) -> None:
    rows = [{"prefix_cache": True, "later_over_first": ratio} for ratio in on]
    rows += [{"prefix_cache": False, "later_over_first": ratio} for ratio in off]
    assert holds(judged.prefix(frame(*rows))) == expected


@pytest.mark.parametrize(
    ("within", "hits_off", "expected"),
    [(40, 0, [True, True]), (39, 0, [False, True]), (40, 16, [True, False])],
)
def test_hits_are_their_construction_and_none_with_the_cache_off(
    within: int, hits_off: int, expected: list[bool]
) -> None:
    usual = {"requests": 40, "expected_tokens": 71680, "block_tokens": 16}
    on = {"prefix_cache": True, "within": within, "measured_tokens": 71680}
    off = {"prefix_cache": False, "within": 5, "measured_tokens": hits_off}
    assert holds(judged.hits(frame(on, off, **usual))) == expected


@pytest.mark.parametrize(
    ("finished", "json", "valid", "expected"),
    [(16, 16, 16, True), (16, 16, 15, False), (16, 15, 15, False), (0, 0, 0, None)],
)
def test_every_finished_constrained_answer_is_json_and_valid(
    finished: int, json: int, valid: int, expected: bool | None
) -> None:
    row = {"load": "constrained@c1", "finished": finished, "json": json, "valid": valid}
    [found] = holds(judged.structured(frame(row)))
    assert found is expected


def test_a_constrained_load_of_which_nothing_finished_is_a_miss_beside_one_that_did() -> None:
    good = {"load": "constrained@c1", "finished": 16, "json": 16, "valid": 16}
    empty = {"load": "fresh_grammar@c1", "finished": 0, "json": 0, "valid": 0}
    [found] = [one for one in judged.structured(frame(good, empty)) if "vllm" in one.name]
    assert found.holds is False
    assert "none finished in fresh_grammar@c1" in found.seen


def test_a_stall_must_fall_with_the_chunk_where_chunks_mix() -> None:
    large = [{"chunk_tokens": 2048, "stall_s": stall_s} for stall_s in (0.8, 0.9, 0.1)]
    small = [{"chunk_tokens": 512, "stall_s": stall_s} for stall_s in (0.2, 0.3, 5.0)]
    level = [{"chunk_tokens": 512, "stall_s": 0.8}]
    assert holds(judged.stalls(frame(*large, *small, mixes=True), "chunking")) == [True]
    assert holds(judged.stalls(frame(*large, *level, mixes=True), "chunking")) == [False]
    assert holds(judged.stalls(frame(*large, mixes=True), "chunking")) == [None]
    assert holds(judged.stalls(frame(*large, *small, mixes=False), "chunking")) == [None]


SEARCH = {"why": "found", "low": 12, "high": 96, "within_ratio": 0.3}


@pytest.mark.parametrize(
    ("brackets", "expected"),
    [
        ([(20, 25), (24, 30)], [True, True]),
        ([(20, 25), (30, 38)], [True, True]),
        ([(20, 25), (40, 50)], [True, False]),
        ([(20, 40), (20, 25)], [False, True]),
        ([(20, 25)], [True, None]),
    ],
)
def test_a_search_ends_within_its_bracket_and_boots_repeat(
    brackets: list[tuple[int, int]], expected: list[bool | None]
) -> None:
    rows = [
        {"boot": boot, "level": met, "missed_level": missed}
        for boot, (met, missed) in enumerate(brackets)
    ]
    assert holds(judged.capacity(frame(*rows, **SEARCH))) == expected


def test_a_search_without_an_answer_is_a_miss() -> None:
    row = {"boot": 0, "level": None, "missed_level": 12, "why": "below_range"}
    assert holds(judged.capacity(frame(row, **{**SEARCH, "why": "below_range"}))) == [False, None]


def test_stage_2_has_the_frozen_tokens_in_all_boots() -> None:
    equal = frame({"kv_tokens": 2560}, {"kv_tokens": 2560})
    assert holds(judged.kv_matched(equal, 2560)) == [True]
    assert holds(judged.kv_matched(frame({"kv_tokens": 2560}, {"kv_tokens": 2576}), 2560)) == [
        False
    ]
    assert holds(judged.kv_matched(frame({"kv_tokens": None}), 2560)) == [False]
    assert holds(judged.kv_matched(equal[:0], None)) == [None]


def loops(closed: int, poisson: int, gamma: int, delivered: float = 1.0) -> pd.DataFrame:
    rows = [
        {"name": "closed", "level_kind": "concurrency", "level": 8, "most_flying": closed},
        {"name": "poisson", "level_kind": "rate_per_s", "level": 8, "most_flying": poisson},
        {"name": "gamma", "level_kind": "rate_per_s", "level": 8, "most_flying": gamma},
        {"name": "gamma", "level_kind": "rate_per_s", "level": 2, "most_flying": 99},
    ]
    named = [{**row, "load": f"{row['name']}@{row['level']}"} for row in rows]
    return frame(*named, delivered_ratio=delivered)


def test_open_loads_are_delivered_and_bunches_queue_as_a_closed_loop_cannot() -> None:
    assert holds(judged.open_loop(loops(8, 4, 9))) == [True, True]
    assert holds(judged.open_loop(loops(8, 4, 4))) == [True, False]
    assert holds(judged.open_loop(loops(7, 4, 9))) == [True, False]
    assert holds(judged.open_loop(loops(8, 4, 9, delivered=0.9))) == [False, True]
    closed = loops(8, 4, 9)[:1]
    assert holds(judged.open_loop(closed)) == [None]


def test_every_boot_is_as_expected_and_its_kv_tokens_are_known() -> None:
    good = {"label": "vllm", "outcome": "done", "cause": "", "expected": True, "kv_tokens": 20480}
    answer = {**good, "outcome": "failed", "cause": "cuda_oom", "kv_tokens": None}
    dead = {**answer, "expected": False}
    mute = {**good, "kv_tokens": None}
    assert holds(judged.boots(frame(good, answer), "chunking", ("vllm",))) == [True]
    assert holds(judged.boots(frame(good, dead), "chunking", ("vllm",))) == [False]
    assert holds(judged.boots(frame(mute), "chunking", ("vllm",))) == [False]
    assert holds(judged.boots(frame(good), "chunking", ("vllm", "sglang")), "sglang") == [None]


def test_a_declared_end_needs_its_own_cause() -> None:
    asked = {"ends": "failed", "because": "hicache_host_memory"}
    right = frame({**asked, "outcome": "failed", "cause": "hicache_host_memory"})
    other = frame({**asked, "outcome": "failed", "cause": "oom_killed"})
    lived = frame({**asked, "outcome": "done", "cause": ""})
    seen = [next(judged.declared_end(one)).holds for one in (right, other, lived, right[:0])]
    assert seen == [True, False, False, None]


def at(request: int, role: str, sent: int, chunks: tuple[int, ...]) -> Timeline:
    return Timeline(
        request=request,
        role=role,
        sent_ns=sent,
        first_ns=chunks[0],
        last_ns=chunks[-1],
        ended_ns=chunks[-1],
        chunk_ns=chunks,
    )


def test_a_stall_is_the_largest_gap_over_each_injected_prompts_own_time() -> None:
    second = 10**9
    victim = at(0, "victim", 0, tuple(t * second for t in (1, 2, 6, 7, 8, 18)))
    first = at(1, "injected", 3 * second, (5 * second,))
    later = at(2, "injected", 7 * second, (int(7.5 * second),))
    assert list(figures.stalls_s([victim, first, later])) == [4.0, 1.0]
    assert figures.most_flying([victim, first, later]) == 2
