"""Shapes of models: what decides the bytes of weights and KV and the work of a token."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A dense decoder with grouped-query attention and a gated MLP.

    Attributes:
        architecture: the class name engines print.
        layers: number of decoder layers.
        hidden: width of the residual stream.
        heads: query heads.
        kv_heads: key and value heads.
        head_dim: width of a head.
        intermediate: width of the MLP.
        vocabulary: number of token ids.
        tied: the output projection shares the embedding's weights.
        stored: how the checkpoint stores its layers, `bfloat16` or `fp8`.
        context_tokens: longest context the model declares.
    """

    architecture: str = "Qwen3ForCausalLM"
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    tied: bool
    stored: str = "bfloat16"
    context_tokens: int

    @property
    def layer_parameters(self) -> int:
        """Parameters of all layers' matrices: attention projections and the MLP."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate)

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding and, where it is not tied, the output projection."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def head_parameters(self) -> int:
        """Parameters of the output projection, which every generated token reads."""
        return self.vocabulary * self.hidden

    def weights_bytes(self, quantization: str | None = None) -> int:
        """Return the bytes of the weights in memory: embeddings stay in two bytes."""
        width = 1 if quantization == "fp8" or self.stored == "fp8" else 2
        return self.layer_parameters * width + self.embedding_parameters * 2

    def read_bytes(self, quantization: str | None = None) -> int:
        """Return the bytes of weights that one step reads, however many tokens it computes."""
        unread = 0 if self.tied else self.head_parameters * 2
        return self.weights_bytes(quantization) - unread

    def kv_token_bytes(self, kv_dtype: str = "auto") -> int:
        """Return the KV bytes of one token: keys and values of every layer."""
        width = 1 if kv_dtype.startswith("fp8") else 2
        return 2 * self.layers * self.kv_heads * self.head_dim * width

    @property
    def token_flops(self) -> int:
        """Floating-point operations of one token in the layers' matrices."""
        return 2 * self.layer_parameters

    @property
    def pair_flops(self) -> int:
        """Floating-point operations of attention for one (query token, key token) pair."""
        return 4 * self.layers * self.heads * self.head_dim


def _qwen3(**sizes: Any) -> Shape:
    return Shape(head_dim=128, kv_heads=8, vocabulary=151_936, context_tokens=40_960, **sizes)


_QWEN3_4B: Final[dict[str, Any]] = {
    "layers": 36,
    "hidden": 2560,
    "heads": 32,
    "intermediate": 9728,
    "tied": True,
}

SHAPES: Final[Mapping[str, Shape]] = {
    "Qwen/Qwen3-0.6B": _qwen3(layers=28, hidden=1024, heads=16, intermediate=3072, tied=True),
    "Qwen/Qwen3-1.7B": _qwen3(layers=28, hidden=2048, heads=16, intermediate=6144, tied=True),
    "Qwen/Qwen3-4B": _qwen3(**_QWEN3_4B),
    "Qwen/Qwen3-4B-FP8": _qwen3(**_QWEN3_4B, stored="fp8"),
    "Qwen/Qwen3-8B": _qwen3(layers=36, hidden=4096, heads=32, intermediate=12_288, tied=False),
    "tiny": Shape(
        layers=2,
        hidden=128,
        heads=4,
        kv_heads=2,
        head_dim=32,
        intermediate=256,
        vocabulary=4096,
        tied=True,
        context_tokens=8192,
    ),
}
"""Shapes by hub name, from each model's config.json; `tiny` is a small one for tests."""


def shape_of(model: str) -> Shape | None:
    """Return the shape of a model: from its config.json for a folder, else from the table.

    None where the folder has no config.json, or the name is not in the table.
    """
    config = Path(model) / "config.json"
    if config.is_file():
        return _from_config(json.loads(config.read_text()))
    return SHAPES.get(model.partition("@")[0])


def _from_config(config: Mapping[str, Any]) -> Shape:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    method = config.get("quantization_config", {}).get("quant_method")
    return Shape(
        architecture=(config.get("architectures") or ["Qwen3ForCausalLM"])[0],
        layers=config["num_hidden_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=config.get("num_key_value_heads", heads),
        head_dim=config.get("head_dim") or hidden // heads,
        intermediate=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        tied=bool(config.get("tie_word_embeddings", False)),
        stored="fp8" if method == "fp8" else "bfloat16",
        context_tokens=config["max_position_embeddings"],
    )
