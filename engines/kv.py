"""How many bytes one token takes in the KV cache, from a model's own configuration.

Per token and layer a key and a value of every KV head are kept:
2 x layers x KV heads x head size x bytes of one number. Models that keep something else (a latent
vector, windows, states) are recognised and refused, because the formula does not hold for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

NUMBER_BYTES: Final = {
    "bfloat16": 2,
    "float16": 2,
    "half": 2,
    "bf16": 2,
    "float32": 4,
    "float": 4,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
}
"""Bytes of one number of the KV cache, by its dtype as engines and models write it."""

HYBRID: Final = (
    "mamba_d_state",
    "ssm_cfg",
    "linear_num_key_heads",
    "attn_layer_period",
    "hybrid_override_pattern",
    "layers_block_type",
)
"""Keys of a config.json that only models with state-space or linear layers have."""

ROUNDING_BYTES: Final = 2**30 * 0.005
"""Half of the last digit that engines print of a size: they print hundredths of a GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerToken:
    """What one token takes.

    Attributes:
        size_bytes: bytes of the KV cache per token, of the whole model; None where the formula
            does not hold.
        refusal: why it does not hold; empty where it does.
    """

    size_bytes: int | None
    refusal: str = ""


def per_token(config: Mapping[str, Any], kv_dtype: str = "auto") -> PerToken:
    """Return the bytes that one token takes in the KV cache of the whole model.

    Args:
        config: the model's config.json.
        kv_dtype: dtype of the KV cache; `auto` is the model's own.
    """
    text = config.get("text_config")
    config = text if isinstance(text, Mapping) else config
    refusal = _refusal(config)
    if refusal:
        return PerToken(size_bytes=None, refusal=refusal)
    layers, heads = config.get("num_hidden_layers"), config.get("num_attention_heads")
    kv_heads = config.get("num_key_value_heads") or heads
    head = config.get("head_dim") or _head_size(config.get("hidden_size"), heads)
    number = _number_bytes(config, kv_dtype)
    parts = (layers, kv_heads, head, number)
    if not all(isinstance(part, int) and part > 0 for part in parts):
        return PerToken(
            size_bytes=None, refusal="config.json does not tell layers, heads, head size and dtype"
        )
    size = 2
    for part in parts:
        size *= int(part or 0)
    return PerToken(size_bytes=size)


def share(
    config: Mapping[str, Any], token_bytes: int, *, tensor: int = 1, pipeline: int = 1
) -> float:
    """Return the bytes of one token on one worker.

    Tensor parallelism splits KV heads, and keeps one whole head where there are fewer heads than
    workers; pipeline parallelism splits layers.
    """
    text = config.get("text_config")
    config = text if isinstance(text, Mapping) else config
    heads = int(config.get("num_key_value_heads") or config.get("num_attention_heads") or 1)
    return token_bytes * max(1 / tensor, 1 / heads) / pipeline


def disagreement(
    tokens: int, kv_bytes: int, token_bytes: float, *, at_most: bool = False
) -> str | None:
    """Return a sentence where tokens x bytes per token is not the memory stated; else None.

    Args:
        tokens: capacity that the engine stated.
        kv_bytes: memory of the KV cache of one worker, as stated (rounded to hundredths of a GiB).
        token_bytes: bytes of one token on one worker.
        at_most: the memory stated is what was available, of which less may be used.
    """
    computed = tokens * token_bytes
    allowed = max(2 * ROUNDING_BYTES, 0.005 * kv_bytes)
    if abs(computed - kv_bytes) <= allowed or (at_most and computed < kv_bytes):
        return None
    gib = 2**30
    return (
        f"{tokens:,} KV tokens of {token_bytes:,.0f} bytes make {computed / gib:.2f} GiB, but "
        f"{kv_bytes / gib:.2f} GiB are stated."
    )


def _refusal(config: Mapping[str, Any]) -> str:
    """Return why the formula does not hold for a model, empty where it does."""
    if config.get("kv_lora_rank"):
        return "the model keeps one latent vector per token (MLA), not keys and values"
    hybrid = next((key for key in HYBRID if config.get(key)), None)
    if hybrid:
        return f"it is a hybrid with state-space or linear layers ({hybrid})"
    if config.get("is_encoder_decoder"):
        return "it has an encoder, whose keys and values are kept per request"
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and kinds:
        other = sorted({str(kind) for kind in kinds} - {"full_attention"})
        return f"some layers do not keep every token ({', '.join(other)})" if other else ""
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        return "it attends within a sliding window, so old tokens are dropped"
    return ""


def _head_size(hidden: object, heads: object) -> int | None:
    if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 and hidden % heads == 0:
        return hidden // heads
    return None


def _number_bytes(config: Mapping[str, Any], kv_dtype: str) -> int | None:
    own = config.get("torch_dtype") or config.get("dtype")
    word = str(own) if kv_dtype == "auto" else kv_dtype
    return NUMBER_BYTES.get(word.removeprefix("torch."))
