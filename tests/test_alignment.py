"""Whether cells may be compared, judged by what was observed of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sides.alignment import RULES, Observed, Value, aligned, sentence

VLLM = Observed(
    cell="vllm",
    engine="vllm",
    asked={"memory": {"fraction": 0.85}, "max_running": 64},
    seen={
        "served by": ("the engine itself",),
        "GPU": ("NVIDIA H100",),
        "model": ("Qwen/Qwen3-1.7B",),
        "KV tokens": (26_560,),
        "chunk": ("2048 of prefill and decodes",),
        "attention backend": ("FLASH_ATTN",),
        "weights GiB": (3.2,),
        "max running": (64,),
    },
)
SGLANG = replace(
    VLLM,
    cell="sglang",
    engine="sglang",
    asked={"memory": {"fraction": 0.8}, "max_running": 64},
    seen={**VLLM.seen, "attention backend": ("fa3",)},
)


def seen(one: Observed, **values: tuple[Value, ...]) -> Observed:
    changed = {name.replace("_", " "): value for name, value in values.items()}
    return replace(one, seen={**one.seen, **changed})


def judged(ours: Observed, theirs: Observed) -> dict[str, str]:
    return {aspect.rule.name: aspect.judged for aspect in aligned(ours, theirs)}


def test_equal_cells_are_comparable_whatever_words_their_engines_use() -> None:
    assert sentence(VLLM, SGLANG) == "vllm over sglang: comparable."
    assert judged(VLLM, SGLANG)["attention backend"] == "own words"


def test_within_one_engine_words_are_compared() -> None:
    other = seen(VLLM, attention_backend=("TRITON",))
    assert "attention backend (FLASH_ATTN against TRITON)" in sentence(VLLM, other)


def test_one_chunk_number_with_two_meanings_is_an_exception() -> None:
    other = seen(SGLANG, chunk=("2048 of prefill alone",))
    assert sentence(VLLM, other) == (
        "vllm over sglang: comparable except chunk (2048 of prefill and decodes against 2048 of"
        " prefill alone)."
    )


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("GPU", "NVIDIA A100"),
        ("model", "another/model"),
        ("served by", "simulated"),
        ("machine", "another box"),
        ("compile cache", "cold"),
    ],
)
def test_another_gpu_model_machine_cache_or_a_simulation_forbids_a_comparison(
    name: str, other: str
) -> None:
    ours = seen(VLLM, machine=("a box",), compile_cache=("warm",))
    theirs = replace(ours, seen={**ours.seen, name: (other,)})
    assert f"not comparable because {name} (" in sentence(ours, theirs)


def test_a_difference_that_the_experiment_asks_for_is_the_question_not_an_obstacle() -> None:
    fp8 = replace(seen(VLLM, weights_GiB=(1.9,)), asked={**VLLM.asked, "weights": "fp8"})
    assert sentence(fp8, VLLM) == (
        "vllm over vllm: comparable; asked for: weights GiB (1.9 against 3.2)."
    )
    assert "not comparable because weights GiB" in sentence(seen(VLLM, weights_GiB=(1.9,)), VLLM)


def test_a_cold_cache_beside_a_kept_one_may_be_the_question() -> None:
    kept = replace(seen(VLLM, compile_cache=("warm",)), asked={**VLLM.asked, "compile": "per_cell"})
    cold = replace(seen(VLLM, compile_cache=("none",)), asked={**VLLM.asked, "compile": "none"})
    assert sentence(cold, kept) == (
        "vllm over vllm: comparable; asked for: compile cache (none against warm)."
    )


def test_what_was_asked_for_and_never_observed_is_said() -> None:
    off = replace(VLLM, asked={**VLLM.asked, "prefix_cache": False})
    assert "asked for: prefix cache (not observed)" in sentence(off, VLLM)


def test_fractions_of_two_engines_ask_for_nothing_in_common() -> None:
    assert "comparable except KV tokens (26 560 against 20 000)" in sentence(
        VLLM, seen(SGLANG, KV_tokens=(20_000,))
    )
    pinned = replace(VLLM, asked={"memory": {"kv_tokens": 26_560}})
    other = replace(seen(SGLANG, KV_tokens=(20_000,)), asked={"memory": {"kv_tokens": 20_000}})
    assert "asked for: KV tokens" in sentence(pinned, other)


def test_kv_within_2_percent_is_equal_and_one_boot_apart_is_not() -> None:
    assert judged(VLLM, seen(SGLANG, KV_tokens=(26_300,)))["KV tokens"] == "equal"
    some = seen(SGLANG, KV_tokens=(26_560, 22_048))
    assert judged(VLLM, some)["KV tokens"] == "differs"
    assert "26 560 against 26 560 / 22 048" in sentence(VLLM, some)


def test_what_one_side_does_not_say_is_not_known_rather_than_equal() -> None:
    silent = replace(SGLANG, seen={k: v for k, v in SGLANG.seen.items() if k != "max running"})
    assert sentence(VLLM, silent).endswith("not known of both: max running.")


@given(st.sampled_from([rule.name for rule in RULES]), st.sampled_from([1.0, "a", "on"]))
def test_judging_is_symmetrical(name: str, value: float | str) -> None:
    other = replace(SGLANG, seen={**SGLANG.seen, name: (value,)})
    assert judged(VLLM, other) == judged(other, VLLM)


def test_weights_of_a_tiny_model_do_not_differ_by_what_free_memory_fell_by_chance() -> None:
    one, other = seen(SGLANG, weights_GiB=(0.004,)), seen(SGLANG, weights_GiB=(-0.013,))
    assert "weights" not in sentence(one, other)
