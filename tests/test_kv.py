"""Bytes of a KV token from a model's configuration, and where the formula does not hold."""

from __future__ import annotations

from typing import Any

import pytest

from engines import Fact
from engines.kv import disagreement, per_token, share
from runner.boots.drift import doubts_about_kv

QWEN3_1_7B: dict[str, Any] = {
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 2048,
    "torch_dtype": "bfloat16",
    "sliding_window": None,
    "use_sliding_window": False,
    "layer_types": ["full_attention"] * 28,
}
GIB = 2**30


def test_a_token_of_qwen3_1_7b_takes_114688_bytes() -> None:
    assert per_token(QWEN3_1_7B).size_bytes == 114_688


def test_fp8_halves_it() -> None:
    assert per_token(QWEN3_1_7B, "fp8").size_bytes == 57_344


def test_a_head_size_that_is_not_written_follows_from_the_hidden_size() -> None:
    config = {name: value for name, value in QWEN3_1_7B.items() if name != "head_dim"}
    assert per_token(config).size_bytes == 114_688


def test_the_text_part_of_a_multimodal_model_counts() -> None:
    assert per_token({"text_config": QWEN3_1_7B}).size_bytes == 114_688


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kv_lora_rank": 512}, "MLA"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding_attention"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "linear_attention"),
        ({"layer_types": None, "sliding_window": 4096, "use_sliding_window": True}, "window"),
        ({"hybrid_override_pattern": "M-M*"}, "hybrid"),
        ({"mamba_d_state": 128}, "state-space"),
        ({"is_encoder_decoder": True}, "encoder"),
        ({"torch_dtype": "int5"}, "does not tell"),
        ({"num_hidden_layers": None}, "does not tell"),
    ],
)
def test_a_model_that_the_formula_does_not_fit_is_refused(
    change: dict[str, Any], word: str
) -> None:
    found = per_token(QWEN3_1_7B | change)
    assert found.size_bytes is None
    assert word in found.refusal


def test_an_empty_configuration_is_refused() -> None:
    assert per_token({}).size_bytes is None


def test_25282_tokens_are_sglangs_twice_1_35_gib() -> None:
    assert disagreement(25_282, round(2 * 1.35 * GIB), 114_688) is None


def test_tokens_and_bytes_that_do_not_fit_are_told_with_their_sum() -> None:
    said = disagreement(25_282, 4 * GIB, 114_688)
    assert said is not None
    assert "2.70 GiB" in said
    assert "4.00 GiB" in said


def test_workers_share_the_bytes_of_a_token_by_heads_and_layers() -> None:
    assert share(QWEN3_1_7B, 114_688, tensor=2) == 57_344
    assert share(QWEN3_1_7B, 114_688, pipeline=2) == 57_344


def test_a_kv_head_is_never_split() -> None:
    assert share(QWEN3_1_7B, 114_688, tensor=16) == 114_688 / 8


def test_memory_that_was_available_need_not_be_used() -> None:
    assert disagreement(25_282, 4 * GIB, 114_688, at_most=True) is None
    assert disagreement(50_000, 4 * GIB, 114_688, at_most=True) is not None


def test_a_boot_whose_tokens_and_bytes_do_not_fit_is_in_doubt() -> None:
    facts = [
        Fact(name="engine_kv_tokens", value=25_282, source="log"),
        Fact(name="kv_bytes", value=4 * GIB, source="log"),
    ]
    (doubt,) = doubts_about_kv(QWEN3_1_7B, facts)
    assert doubt.name == "sources_disagree"
    assert doubts_about_kv(QWEN3_1_7B | {"kv_lora_rank": 1}, facts) == []
