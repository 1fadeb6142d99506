"""Our facts under the names and units that logs with known facts are held against.

This is the one table between the catalogue and `runner scrape --format json`. Sizes there are in
the engine's own GB: 2^30 bytes for device memory, 10^9 for SGLang's host memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engines import Fact, Value
from engines.facts import AS_STORED

GIB: Final = 2**30
GB: Final = 10**9

BOTH: Final[dict[str, tuple[str, ...]]] = {
    "version": ("version",),
    "ready": ("ready",),
    "stopped": ("stopped",),
    "device": ("device",),
    "port": ("port",),
    "kv_tokens": ("kv_tokens",),
    "dtype": ("dtype",),
    "kv_dtype": ("kv_cache_dtype",),
    "weights": ("quantization",),
    "attention_backend": ("attention_backend",),
    "prefix_cache": ("prefix_cache",),
    "chunked_prefill": ("chunked_prefill",),
    "mixed_chunk": ("mixed_chunk",),
    "chunk_tokens": ("chunk",),
    "max_prefill_tokens": ("max_prefill_tokens",),
    "derived_context_tokens": ("derived_context_len",),
    "tensor_parallel": ("tensor_parallel_size", "tp"),
    "pipeline_parallel": ("pipeline_parallel_size", "pp"),
    "data_parallel": ("data_parallel_size", "dp"),
    "server_seed": ("seed",),
    "block_tokens": ("block_size",),
    "weights_bytes": ("weights_gb",),
    "load_s": ("load_s",),
    "weights_load_s": ("weights_load_s",),
    "graph_bytes": ("cuda_graph_gb",),
    "graph_capture_s": ("cuda_graph_s",),
    "largest_prefill_tokens": ("largest_prefill_tokens",),
}

NAMES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "vllm": BOTH
    | {
        "kv_blocks": ("num_gpu_blocks",),
        "swap_blocks": ("num_cpu_blocks",),
        "attention_block_tokens": ("attention_block_size",),
        "context_tokens": ("context_len", "max_model_len"),
        "estimated_context_tokens": ("estimated_max_model_len",),
        "max_concurrency": ("max_concurrency",),
        "max_running": ("max_num_seqs",),
        "mamba_blocks": ("mamba_cache_blocks",),
        "memory_fraction": ("gpu_memory_utilization",),
        "enforce_eager": ("enforce_eager",),
        "kv_bytes": ("available_kv_gb",),
        # stated where less than what was available is used
        "kv_available_bytes": ("available_kv_gb",),
        "kv_needed_bytes": ("kv_needed_gb",),
        "activation_bytes": ("peak_activation_gb",),
        "non_torch_bytes": ("non_torch_gb",),
        "graph_estimate_bytes": ("cuda_graph_estimate_gb",),
        "device_total_bytes": ("total_gpu_gb",),
        "device_free_bytes": ("free_gpu_gb",),
        "requested_bytes": ("requested_gb",),
        "model_init_s": ("model_init_s",),
        "compile_s": ("torch_compile_s",),
        "dynamo_s": ("dynamo_s",),
        "general_compile_s": ("compile_general_s",),
        "range_compile_s": ("compile_s",),
        "profile_s": ("profile_s", "profile_s_max"),
        "warmup_s": ("warmup_s",),
        "engine_init_s": ("init_engine_s",),
    },
    "sglang": BOTH
    | {
        "context_tokens": ("context_len",),
        "max_running": ("max_running",),
        "memory_fraction": ("mem_fraction_static",),
        "kv_k_bytes": ("k_gb",),
        "kv_v_bytes": ("v_gb",),
        "kv_bytes": ("kv_gb",),
        "kv_available_bytes": ("available_kv_gb",),
        "full_tokens": ("full_layer_tokens",),
        "swa_tokens": ("swa_tokens", "swa_layer_tokens"),
        "swa_k_bytes": ("swa_k_gb",),
        "swa_v_bytes": ("swa_v_gb",),
        "swa_bytes": ("swa_gb",),
        "draft_kv_tokens": ("draft_kv_tokens",),
        "draft_k_bytes": ("draft_k_gb",),
        "draft_v_bytes": ("draft_v_gb",),
        "draft_kv_bytes": ("draft_kv_gb",),
        "draft_weights_bytes": ("draft_weights_gb",),
        "profiled_tokens": ("profiled_tokens",),
        "mamba_slots": ("mamba_slots",),
        "mamba_conv_bytes": ("mamba_conv_gb",),
        "mamba_ssm_bytes": ("mamba_ssm_gb",),
        "mamba_draft_ssm_bytes": ("mamba_intermediate_ssm_gb",),
        "mamba_draft_conv_bytes": ("mamba_intermediate_conv_gb",),
        "hicache_bytes": ("hicache_host_gb",),
        "hicache_indexer_bytes": ("hicache_indexer_host_gb",),
        "hicache_mamba_bytes": ("hicache_mamba_host_gb",),
        "hicache_tokens": ("hicache_tokens",),
        "hicache_requested_bytes": ("hicache_requested_gb",),
        "host_free_bytes": ("host_free_gb",),
        "dist_init_s": ("dist_init_s",),
        "free_before_load_bytes": ("free_before_gb",),
        "free_after_load_bytes": ("free_after_weights_gb",),
        "free_after_kv_bytes": ("free_after_pool_gb",),
        "free_after_capture_bytes": ("available_gpu_mem_gb",),
        # stated last, so it replaces the free memory after capturing
        "free_at_ready_bytes": ("available_gpu_mem_gb",),
        "host_free_at_ready_bytes": ("available_cpu_mem_gb",),
        "free_in_service_bytes": ("free_device_gb",),
    },
}

DECIMAL: Final = frozenset(
    {
        "hicache_bytes",
        "hicache_indexer_bytes",
        "hicache_mamba_bytes",
        "hicache_requested_bytes",
        "host_free_bytes",
    }
)
LEAST: Final = {
    "available_kv_gb_min": ("kv_bytes",),
    "free_after_pool_gb_min": ("free_after_kv_bytes", "free_before_capture_bytes"),
}
"""Smallest of all that is stated under these facts, where it is not what the fact itself shows."""


def corpus_facts(engine: str | None, facts: Iterable[Fact]) -> dict[str, Value | list[Value]]:
    """Return facts under the names of logs with known facts; an absent name was not stated.

    Args:
        engine: name of the engine, None where it was not recognised.
        facts: the first of a name is the server's.
    """
    facts = tuple(facts)
    names = NAMES.get(engine or "vllm", BOTH)
    # there, weights without quantization state nothing
    first = {fact.name: fact for fact in reversed(facts) if fact.value != AS_STORED}
    shown: dict[str, Value | list[Value]] = {}
    for ours, theirs in names.items():
        if ours in first:
            shown |= dict.fromkeys(theirs, _unit(first[ours], engine))
    return shown | _several(facts, engine, shown)


def corpus_engine(engine: str | None, facts: Iterable[Fact]) -> str | None:
    """Return the engine's name there: a plugin for another device counts as its own engine."""
    devices = {fact.value for fact in facts if fact.name == "device"}
    return "vllm-ascend" if engine == "vllm" and "npu" in devices else engine


def _several(
    facts: tuple[Fact, ...], engine: str | None, single: dict[str, Value | list[Value]]
) -> dict[str, Value | list[Value]]:
    shown: dict[str, Value | list[Value]] = {}
    for name, sources in LEAST.items():
        stated = [_unit(fact, engine) for fact in facts if fact.name in sources]
        least = min(stated, key=float, default=None)
        if least is not None and least != single.get(name.removesuffix("_min")):
            shown[name] = least
    ranks = [fact for fact in facts if fact.name == "engine_kv_tokens" and "DP" in fact.rank]
    if len({fact.rank for fact in ranks}) > 1:
        shown["kv_tokens_per_engine"] = [fact.value for fact in ranks]
    return shown


def _unit(fact: Fact, engine: str | None) -> Value:
    if not fact.name.endswith("_bytes") or isinstance(fact.value, str):
        return fact.value
    decimal = fact.name in DECIMAL and engine == "sglang"
    return round(fact.value / (GB if decimal else GIB), 4)
