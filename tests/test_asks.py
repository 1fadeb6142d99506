"""From prompts to requests: bodies in the engine's words, times, lengths, and the path."""

from __future__ import annotations

import dataclasses
import json
import math
from itertools import islice, pairwise
from typing import Any

import pytest

import engines
from runner.boots.asks import Draw, asks_of, expected_hit_tokens, path_of, prompts_of, refusal_of
from runner.errors import ExperimentError
from runner.experiment import LoadKeys
from runner.experiment.levels import Load, loads_of
from runner.load import Ask
from runner.workloads import Prompt, Vocabulary

VLLM, SGLANG = engines.get("vllm"), engines.get("sglang")
DRAW = Draw(seed=1, boot=0, load="x", repeat=0)
RANDOM = {"workload": "random", "input_tokens": 20, "output_tokens": 4}
STRUCTURED = {"workload": "structured", "output_tokens": 50, "constrained": True}
INTERFERENCE = {
    "workload": "interference",
    "victim_input_tokens": 8,
    "victim_output_tokens": 50,
    "steady_s": 2,
    "injected_input_tokens": 30,
    "injected_output_tokens": 4,
}


def load_of(**keys: Any) -> Load:
    return next(loads_of(LoadKeys.model_validate(keys)))


def closed(**keys: Any) -> Load:
    return load_of(concurrency=2, requests=6, **keys)


def asked(load: Load, draw: Draw = DRAW, purpose: str = "window") -> list[Ask]:
    return list(islice(asks_of(load, draw, Vocabulary(), VLLM, "tiny", purpose), 40))


def body(ask: Ask) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(ask.body)
    return read


def test_a_closed_loop_has_its_number_of_requests_and_no_times() -> None:
    asks = asked(closed(**RANDOM))
    assert len(asks) == 6
    assert {(ask.due_s, ask.input_tokens, ask.output_tokens) for ask in asks} == {(None, 20, 4)}
    assert all(len(body(ask)["prompt"]) == 20 for ask in asks)


def test_a_warm_up_sends_what_each_stream_needs_and_other_prompts_than_the_window() -> None:
    load = closed(**RANDOM, warmup={"per_stream": 3})
    warm = asked(load, purpose="warmup")
    assert len(warm) == 6
    assert not {ask.body for ask in warm} & {ask.body for ask in asked(load)}


def test_every_boot_load_and_repeat_draws_its_own_prompts_and_a_block_shares_them() -> None:
    load = closed(**RANDOM)
    draws = (
        DRAW,
        dataclasses.replace(DRAW, seed=2),
        dataclasses.replace(DRAW, boot=1),
        dataclasses.replace(DRAW, load="y"),
        dataclasses.replace(DRAW, repeat=1),
    )
    assert len({asked(load, draw)[0].body for draw in draws}) == 5
    assert asked(load) == asked(load)
    vllm = asks_of(load, DRAW, Vocabulary(), VLLM, "tiny", "window")
    sglang = asks_of(load, DRAW, Vocabulary(), SGLANG, "tiny", "window")
    for one, other in zip(vllm, sglang, strict=True):
        assert body(one)["prompt"] == body(other)["prompt"]


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "gamma"])
def test_an_open_loop_follows_its_law(arrivals: str) -> None:
    load = load_of(rate_per_s=4.0, requests=40, arrivals=arrivals, **RANDOM)
    times = [ask.due_s for ask in asked(load)]
    assert None not in times
    gaps = [b - a for a, b in pairwise(t for t in times if t is not None)]
    assert min(gaps) >= 0
    assert 0.1 <= sum(gaps) / len(gaps) <= 0.5
    assert (len(set(gaps)) == 1) == (arrivals == "constant")


def test_laws_of_one_load_differ_and_one_law_repeats() -> None:
    def times(**keys: Any) -> list[float | None]:
        return [ask.due_s for ask in asked(load_of(rate_per_s=4.0, requests=9, **RANDOM, **keys))]

    assert times() == times()
    assert times() != times(arrivals="gamma", burstiness=0.25)


def test_a_window_that_time_ends_has_requests_without_end() -> None:
    load = load_of(rate_per_s=4.0, duration_s=10.0, **RANDOM)
    assert len(asked(load)) == 40


def test_victims_go_at_once_and_the_injected_by_the_law_once_these_are_steady() -> None:
    load = load_of(rate_per_s=0.5, arrivals="constant", requests=4, **INTERFERENCE)
    assert [(ask.role, ask.due_s) for ask in asked(load)] == [
        ("victim", 0.0),
        ("injected", 2.0),
        ("injected", 4.0),
        ("injected", 6.0),
    ]


def test_a_warm_up_has_no_times() -> None:
    load = load_of(rate_per_s=0.5, requests=4, warmup=2, **INTERFERENCE)
    warm = asked(load, purpose="warmup")
    assert [(ask.role, ask.due_s) for ask in warm] == [("victim", None), ("injected", None)]


def test_own_times_win_over_the_law() -> None:
    burst = {"workload": "burst", "size": 2, "every_s": 3.0, "input_tokens": 4, "output_tokens": 1}
    load = load_of(rate_per_s=9.0, requests=4, **burst)
    assert [ask.due_s for ask in asked(load)] == [0.0, 0.0, 3.0, 3.0]


def test_a_burst_level_says_how_many_come_at_one_moment() -> None:
    burst = {"workload": "burst", "every_s": 3.0, "input_tokens": 4, "output_tokens": 1}
    loads = list(loads_of(LoadKeys.model_validate({**burst, "burst": [2, 3], "requests": 4})))
    assert {load.load: [ask.due_s for ask in asked(load)] for load in loads} == {
        "burst@b2": [0.0, 0.0, 3.0, 3.0],
        "burst@b3": [0.0, 0.0, 0.0, 3.0],
    }
    [fast] = loads_of(LoadKeys.model_validate({**burst, "size": 2, "speed": 6, "requests": 4}))
    assert [ask.due_s for ask in asked(fast)] == [0.0, 0.0, 0.5, 0.5]


def test_later_turns_follow_an_answer_and_only_first_turns_arrive() -> None:
    turns = {"workload": "multi_turn", "sessions": 2, "turns": 2, "think_s": 1.5}
    load = load_of(
        rate_per_s=4.0, arrivals="constant", requests=6, user_tokens=9, answer_tokens=3, **turns
    )
    assert [(ask.due_s, ask.after, ask.think_s) for ask in asked(load)] == [
        (0.0, None, 0.0),
        (0.25, None, 0.0),
        (None, 0, 1.5),
        (None, 1, 1.5),
        (0.5, None, 0.0),
        (0.75, None, 0.0),
    ]


@pytest.mark.parametrize("engine", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_a_chat_carries_its_schema_and_leaves_its_lengths_to_the_server(
    engine: engines.Engine,
) -> None:
    load = closed(**STRUCTURED)
    ask = next(asks_of(load, DRAW, Vocabulary(), engine, "tiny", "window"))
    sent = body(ask)
    assert path_of(load, engine) == "/v1/chat/completions"
    assert (ask.input_tokens, ask.output_tokens) == (None, None)
    assert sent["max_tokens"] == 50
    assert sent["ignore_eos"] is False
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["response_format"]["json_schema"]["schema"]["required"][0] == "name"
    assert sent["messages"][0]["role"] == "user"
    assert "return_token_ids" not in sent


def test_a_chat_that_is_only_asked_has_no_response_format() -> None:
    assert "response_format" not in body(asked(closed(**STRUCTURED | {"constrained": False}))[0])


def test_a_text_log_asks_exact_lengths_of_its_chats() -> None:
    load = closed(
        workload="trace",
        file="tests/traces/sharegpt.json",
        times="level",
        prompts="text",
        output_tokens=9,
    )
    asks = asked(load)
    assert [ask.output_tokens for ask in asks] == [9, 9]
    assert body(asks[0])["ignore_eos"] is True


def test_token_ids_of_answers_are_asked_for_only_where_they_are_kept() -> None:
    assert "return_token_ids" not in body(asked(closed(**RANDOM))[0])
    assert body(asked(closed(workload="accuracy"))[0])["return_token_ids"] is True


def test_sampling_is_spelled_out_in_every_body() -> None:
    for keys in (RANDOM, STRUCTURED):
        sent = body(asked(closed(**keys, sampling={"temperature": 0.5, "seed": 7}))[0])
        assert (sent["temperature"], sent["top_p"], sent["seed"]) == (0.5, 1.0, 7)


def test_an_engine_without_chats_is_refused_before_anything_is_sent() -> None:
    mute = dataclasses.replace(VLLM, chat=None)
    load = closed(**STRUCTURED)
    assert refusal_of(load, VLLM) is None
    assert refusal_of(closed(**RANDOM), mute) is None
    assert "has no chats" in (refusal_of(load, mute) or "")
    with pytest.raises(ExperimentError, match="has no chats"):
        next(asks_of(load, DRAW, Vocabulary(), mute, "tiny", "window"))


def test_expected_hits_are_summed_and_unknown_where_any_is() -> None:
    keys = {"workload": "shared_prefix", "prefixes": 1, "prefix_tokens": 30, "suffix_tokens": 5}
    prompts = list(prompts_of(closed(**keys, output_tokens=1), DRAW, Vocabulary(), "window"))
    assert expected_hit_tokens(prompts) == 150
    assert (
        expected_hit_tokens([*prompts, Prompt(output_tokens=1, expected_hit_tokens=None)]) is None
    )
    assert expected_hit_tokens([]) == 0


def test_all_at_once_leaves_a_time_to_nobody_but_those_who_follow() -> None:
    asks = asked(load_of(rate_per_s="inf", requests=5, **RANDOM))
    assert [ask.due_s for ask in asks] == [0.0] * 5
    asks = asked(load_of(rate_per_s="inf", requests=4, **INTERFERENCE))
    assert [ask.due_s for ask in asks] == [0.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("shape", "within_10_s"),
    [("linear", 60), ("exponential", 90 / math.log(10)), ("steps", (1 + 4 + 7) * 10 / 3)],
)
def test_a_ramp_brings_as_many_as_its_shape_holds_and_then_the_level(
    shape: str, within_10_s: float
) -> None:
    first = {"linear": 2, "exponential": 1, "steps": 1}[shape]
    ramp = {"from_per_s": first, "over_s": 10, "shape": shape}
    ramp |= {"steps": 3} if shape == "steps" else {}
    load = load_of(rate_per_s=10, ramp=ramp, arrivals="constant", requests=400, **RANDOM)
    due_s = [ask.due_s or 0.0 for ask in asks_of(load, DRAW, Vocabulary(), VLLM, "m", "window")]
    assert sum(one < 10 for one in due_s) == pytest.approx(within_10_s, abs=1)
    assert {round(b - a, 6) for a, b in pairwise(due_s) if a > 10} == {0.1}
