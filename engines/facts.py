"""The catalogue of facts: every name a server's statement may be stored under, with its unit.

A fact that shows a setting bears the setting's name. Sizes are bytes, times seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Name, unit and meaning of one kind of fact."""

    name: str
    unit: str
    meaning: str


def _catalogue(*rows: tuple[str, str, str]) -> dict[str, Entry]:
    return {name: Entry(name=name, unit=unit, meaning=meaning) for name, unit, meaning in rows}


CATALOGUE: Final = _catalogue(
    ("version", "", "the server's release"),
    ("simulated", "", "the server is this project's simulated engine"),
    ("kv_tokens", "tokens", "tokens that the KV cache holds, over all data-parallel ranks"),
    ("kv_bytes", "bytes", "memory of the KV cache of one worker"),
    ("chunk_tokens", "tokens", "largest prefill chunk of one step"),
    ("max_running", "requests", "most requests that run at once"),
    ("context_tokens", "tokens", "longest input plus output of a request"),
    ("prefix_cache", "", "KV of equal prefixes is reused"),
    ("mixed_chunk", "", "prefill chunks and decodes share a step"),
    ("dtype", "", "dtype of activations"),
    ("kv_dtype", "", "dtype of the KV cache"),
    ("weights", "", "quantization of the weights"),
    ("weights_bytes", "bytes", "memory of the weights of one worker"),
    ("block_tokens", "tokens", "tokens of a KV block or page"),
    ("weights_load_s", "s", "reading the weights"),
    ("compile_s", "s", "compiling the model"),
    ("graph_capture_s", "s", "capturing CUDA graphs"),
    ("engine_init_s", "s", "profiling, making the KV cache and warming up"),
)

COUNTERS: Final = {
    "prefix_query_tokens": "prompt tokens looked up in the prefix cache, running total",
    "prefix_hit_tokens": "prompt tokens found in the prefix cache, running total",
    "prompt_tokens": "prompt tokens taken in, running total",
    "output_tokens": "tokens generated, running total",
    "preemptions": "running requests put back for want of KV memory, running total",
    "running": "requests running now",
    "waiting": "requests waiting now",
    "kv_used_ratio": "share of the KV cache in use now",
}
"""What `Engine.counters` may return; running totals are compared before and after a load."""
