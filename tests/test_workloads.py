"""What each workload asks: lengths, prefixes, roles and times, the same for the same seed."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from runner import workloads
from runner.workloads import Prompt, Vocabulary
from runner.workloads.lengths import Distribution, drawn

VOCABULARY = Vocabulary(low=100, high=2000)

SPECS: dict[str, dict[str, Any]] = {
    "random": {"input_tokens": 20, "output_tokens": 4},
    "shared_prefix": {
        "prefixes": 3,
        "prefix_tokens": 50,
        "suffix_tokens": 10,
        "output_tokens": 2,
    },
    "interference": {
        "victim_input_tokens": 8,
        "victim_output_tokens": 500,
        "steady_s": 2,
        "injected_input_tokens": 300,
        "injected_output_tokens": 4,
    },
    "structured": {"constrained": True, "output_tokens": 200},
    "multi_turn": {"sessions": 2, "turns": 3, "user_tokens": 10, "answer_tokens": 5},
    "burst": {"size": 4, "every_s": 2.0, "input_tokens": 9, "output_tokens": 1},
    "mix": {
        "parts": [
            {"workload": "random", "input_tokens": 5, "output_tokens": 1},
            {"workload": "random", "name": "long", "input_tokens": 50, "output_tokens": 1},
        ]
    },
    "accuracy": {"prompts": 3, "input_tokens": 12, "output_tokens": 6},
    "trace": {"file": "tests/traces/azure.csv", "times": "own"},
}


def some(name: str, count: int, seed: int = 1, **keys: Any) -> list[Prompt]:
    kind = workloads.get(name)
    spec = kind.spec.model_validate(SPECS[name] | keys)
    return list(islice(kind.prompts(spec, random.Random(seed), VOCABULARY), count))


def common(one: Prompt, other: Prompt) -> int:
    """Return how many leading tokens two prompts share."""
    pairs = zip(one.token_ids, other.token_ids, strict=False)
    shorter = min(len(one.token_ids), len(other.token_ids))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), shorter)


def test_every_workload_is_listed_and_files_that_only_help_are_not() -> None:
    assert set(workloads.names()) == set(SPECS)


def test_a_workload_of_another_name_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        workloads.get("lengths")


@pytest.mark.parametrize("name", sorted(SPECS))
def test_the_same_seed_asks_the_same_and_a_word_in_the_file_is_the_name(name: str) -> None:
    assert some(name, 20) == some(name, 20)
    assert workloads.get(name).name == name


@pytest.mark.parametrize("name", sorted(set(SPECS) - {"accuracy"}))
def test_another_seed_asks_something_else(name: str) -> None:
    assert some(name, 3, seed=1) != some(name, 3, seed=2)


@pytest.mark.parametrize("name", sorted(SPECS))
def test_an_unknown_key_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        workloads.get(name).spec.model_validate(SPECS[name] | {"no_such_key": 1})


@pytest.mark.parametrize("name", sorted(set(SPECS) - {"structured"}))
def test_token_ids_stay_inside_the_vocabulary(name: str) -> None:
    for prompt in some(name, 30):
        assert prompt.token_ids
        assert all(100 <= token < 2000 for token in prompt.token_ids)


def test_random_prompts_share_no_prefix_beyond_chance() -> None:
    prompts = some("random", 200)
    longest = max(common(a, b) for n, a in enumerate(prompts) for b in prompts[:n])
    assert longest <= 3
    assert {len(prompt.token_ids) for prompt in prompts} == {20}


def test_random_lengths_follow_their_distributions() -> None:
    prompts = some(
        "random",
        400,
        input_tokens={"uniform": [10, 30]},
        output_tokens={"lognormal": {"median": 40, "sigma": 0.5}, "at_most": 90},
    )
    assert {len(prompt.token_ids) for prompt in prompts} == set(range(10, 31))
    outputs = sorted(prompt.output_tokens for prompt in prompts)
    assert outputs[-1] == 90
    assert 34 <= outputs[200] <= 46


def test_the_first_of_a_prefix_expects_nothing_and_every_later_one_the_whole_prefix() -> None:
    prompts = some("shared_prefix", 60)
    seen: dict[str, Prompt] = {}
    for prompt in prompts:
        assert len(prompt.token_ids) == 60
        if prompt.group not in seen:
            assert (prompt.role, prompt.expected_hit_tokens) == ("first", 0)
        else:
            assert (prompt.role, prompt.expected_hit_tokens) == ("later", 50)
            assert 50 <= common(prompt, seen[prompt.group]) <= 52
        seen.setdefault(prompt.group, prompt)
    assert len(seen) == 3


def test_prefixes_differ_from_each_other() -> None:
    firsts = [prompt for prompt in some("shared_prefix", 60) if prompt.role == "first"]
    assert max(common(a, b) for n, a in enumerate(firsts) for b in firsts[:n]) <= 2


def test_the_requests_that_share_nothing_are_as_long_and_expect_nothing() -> None:
    prompts = some("shared_prefix", 1000, share_ratio=0.3)
    alone = [prompt for prompt in prompts if prompt.role == "alone"]
    assert 640 <= len(alone) <= 760
    assert {len(prompt.token_ids) for prompt in alone} == {60}
    assert {prompt.expected_hit_tokens for prompt in alone} == {0}
    assert {prompt.group for prompt in alone} == {""}


def test_zipf_popularity_orders_the_prefixes() -> None:
    counts = Counter(prompt.group for prompt in some("shared_prefix", 3000, zipf=1.0))
    first, second, third = (counts[f"prefix-{number}"] for number in range(3))
    assert 1.7 <= first / second <= 2.3
    assert 2.6 <= first / third <= 3.5


def test_victims_start_at_once_and_the_injected_wait_until_they_are_steady() -> None:
    victims, injected = (
        some("interference", 5, victims=2)[:2],
        some("interference", 5, victims=2)[2:],
    )
    assert [(p.role, p.due_s, p.output_tokens) for p in victims] == [("victim", 0.0, 500)] * 2
    assert {(p.role, p.due_s, p.offset_s) for p in injected} == {("injected", None, 2.0)}
    assert {len(p.token_ids) for p in injected} == {300}


def test_a_session_carries_its_earlier_turns_and_expects_the_prompt_before_as_hits() -> None:
    prompts = some("multi_turn", 6, think_s=1.5, tool_tokens=4)
    one = prompts[0::2]
    assert [p.group for p in prompts] == ["session-0", "session-1"] * 3
    assert [len(p.token_ids) for p in one] == [10, 29, 48]
    assert [p.expected_hit_tokens for p in one] == [0, 10, 29]
    assert [p.after for p in one] == [None, 0, 2]
    assert [p.think_s for p in one] == [0.0, 1.5, 1.5]
    assert [p.role for p in one] == ["first", "later", "later"]
    assert common(one[2], one[1]) == 29


def test_a_session_that_ends_is_followed_by_a_new_one_that_knows_the_system_prompt() -> None:
    prompts = some("multi_turn", 8, system_tokens=20)
    assert prompts[6].group == "session-2"
    assert prompts[6].role == "first"
    assert prompts[6].after is None
    assert prompts[6].expected_hit_tokens == 20
    assert common(prompts[6], prompts[0]) >= 20
    assert prompts[0].expected_hit_tokens == 0


def test_think_times_can_be_exponential() -> None:
    later = [
        p.think_s for p in some("multi_turn", 900, think_s=2.0, think="exponential") if p.after
    ]
    assert 1.8 <= sum(later) / len(later) <= 2.2
    assert len(set(later)) > 500


def test_bursts_come_together_and_again() -> None:
    prompts = some("burst", 10, spread_s=1.0)
    assert [p.due_s for p in prompts] == [0.0, 0.25, 0.5, 0.75, 2.0, 2.25, 2.5, 2.75, 4.0, 4.25]
    assert prompts[3].group == "burst-0"
    assert prompts[4].group == "burst-1"


def test_a_burst_that_runs_into_the_next_is_refused() -> None:
    with pytest.raises(ValidationError, match="run into each other"):
        some("burst", 1, spread_s=3.0)


def test_a_mix_blends_by_weight_and_keeps_parts_apart() -> None:
    parts = [
        {"workload": "random", "name": "short", "weight": 3, "input_tokens": 5, "output_tokens": 1},
        {"workload": "shared_prefix", "weight": 1, **SPECS["shared_prefix"]},
    ]
    prompts = some("mix", 2000, parts=parts)
    short = [p for p in prompts if p.group == "short"]
    assert 1420 <= len(short) <= 1580
    assert {len(p.token_ids) for p in short} == {5}
    assert {p.group.split("/")[0] for p in prompts} == {"short", "shared_prefix"}
    assert {p.role for p in prompts if p.group.startswith("shared_prefix/")} == {"first", "later"}


def test_a_mix_leaves_times_to_its_arrival_law() -> None:
    parts = [
        {"workload": "burst", **SPECS["burst"]},
        {"workload": "multi_turn", **SPECS["multi_turn"]},
    ]
    for prompt in some("mix", 50, parts=parts):
        assert (prompt.due_s, prompt.offset_s, prompt.after, prompt.think_s) == (
            None,
            0.0,
            None,
            0.0,
        )


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([{"workload": "randm"}] * 2, "unknown workload 'randm'"),
        ([{"workload": "mix", "parts": []}] * 2, "unknown workload 'mix'"),
        ([{"workload": "random", "input_tokens": 3}] * 2, "output_tokens"),
        ([{"workload": "random", "input_tokens": 3, "output_tokens": 3}] * 2, "bear one name"),
        (
            [
                {"workload": "random", "input_tokens": 3, "output_tokens": 3},
                {"workload": "structured", "constrained": True, "output_tokens": 9},
            ],
            "cannot be mixed",
        ),
    ],
)
def test_a_mix_that_cannot_be_is_refused(parts: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        some("mix", 1, parts=parts)


def test_accuracy_prompts_are_the_same_for_every_seed_and_come_again() -> None:
    prompts = some("accuracy", 6, seed=1)
    assert prompts == some("accuracy", 6, seed=2)
    assert prompts[0].token_ids == prompts[3].token_ids
    assert {p.expected_hit_tokens for p in prompts} == {None}
    assert all(p.keep_answer for p in prompts)
    assert some("accuracy", 3, prompts_seed=7)[0].token_ids != prompts[0].token_ids


LAWS = st.one_of(
    st.tuples(st.integers(1, 50), st.integers(0, 50)).map(
        lambda pair: {"uniform": [pair[0], pair[0] + pair[1]]}
    ),
    st.tuples(st.floats(1, 500), st.floats(0, 500), st.integers(1, 900)).map(
        lambda t: {"normal": {"mean": t[0], "sd": t[1]}, "at_most": t[2]}
    ),
    st.tuples(st.floats(1, 500), st.floats(0, 3), st.integers(1, 900)).map(
        lambda t: {"lognormal": {"median": t[0], "sigma": t[1]}, "at_most": t[2]}
    ),
    st.lists(st.integers(1, 400), min_size=2, max_size=6, unique=True).map(
        lambda bounds: {
            "histogram": {"bounds": sorted(bounds), "weights": [1.0] * (len(bounds) - 1)}
        }
    ),
)


@given(law=LAWS, seed=st.integers())
def test_a_drawn_length_is_whole_and_within_its_limits(law: dict[str, Any], seed: int) -> None:
    length = Distribution.model_validate(law)
    token_count = drawn(length, random.Random(seed))
    assert type(token_count) is int
    assert token_count >= 1
    if length.at_most is not None:
        assert token_count <= length.at_most
    if length.uniform is not None:
        assert length.uniform[0] <= token_count <= length.uniform[1]
    if length.histogram is not None:
        assert length.histogram.bounds[0] <= token_count <= length.histogram.bounds[-1]


def test_a_histogram_draws_each_bin_by_its_weight() -> None:
    length = Distribution.model_validate(
        {"histogram": {"bounds": [1, 10, 100], "weights": [9.0, 1.0]}}
    )
    rng = random.Random(4)
    over = sum(drawn(length, rng) > 10 for _ in range(2000))
    assert 150 <= over <= 250


@pytest.mark.parametrize(
    ("length", "said"),
    [
        ({}, "exactly one"),
        ({"uniform": [1, 2], "normal": {"mean": 3, "sd": 1}, "at_most": 9}, "exactly one"),
        ({"uniform": [5, 2]}, "shortest"),
        ({"normal": {"mean": 3, "sd": 1}}, "no longest length"),
        ({"lognormal": {"median": 3, "sigma": 1}, "at_least": 9, "at_most": 3}, "under at_least"),
        ({"histogram": {"bounds": [1, 5], "weights": [1, 2]}}, "need 1 weights"),
        ({"histogram": {"bounds": [5, 1], "weights": [1]}}, "must grow"),
        ({"histogram": {"bounds": [1, 5], "weights": [0]}}, "over 0"),
    ],
)
def test_a_length_that_says_nothing_sure_is_refused(length: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        some("random", 1, input_tokens=length)
