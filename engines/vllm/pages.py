"""vLLM's pages: what they state, and how the prefix cache is emptied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from engines import Fact, Flush, Probe, Sample
from engines.pages import (
    at,
    facts_at,
    json_of,
    mean,
    models_probe,
    totals,
    value_of_label,
    weights_at,
)

CONFIG_PATHS: Final = (
    ("chunk_tokens", "scheduler_config.max_num_batched_tokens"),
    ("max_running", "scheduler_config.max_num_seqs"),
    ("chunked_prefill", "scheduler_config.enable_chunked_prefill"),
    ("context_tokens", "model_config.max_model_len"),
    ("dtype", "model_config.dtype"),
    ("server_seed", "model_config.seed"),
    ("enforce_eager", "model_config.enforce_eager"),
    ("kv_dtype", "cache_config.cache_dtype"),
    ("prefix_cache", "cache_config.enable_prefix_caching"),
    ("block_tokens", "cache_config.block_size"),
    ("kv_blocks", "cache_config.num_gpu_blocks"),
    ("memory_fraction", "cache_config.gpu_memory_utilization"),
    ("tensor_parallel", "parallel_config.tensor_parallel_size"),
    ("pipeline_parallel", "parallel_config.pipeline_parallel_size"),
    ("data_parallel", "parallel_config.data_parallel_size"),
)

CACHE_LABELS: Final = {
    "block_size": "block_tokens",
    "num_gpu_blocks": "kv_blocks",
    "cache_dtype": "kv_dtype",
    "enable_prefix_caching": "prefix_cache",
    "gpu_memory_utilization": "memory_fraction",
    # the log's number, from 0.24 on; blocks x block size would be wrong for hybrid models
    "kv_cache_size_tokens": "engine_kv_tokens",
    "kv_cache_max_concurrency": "max_concurrency",
}

TOTALS: Final = {
    # up to 0.8.5 `gpu_prefix_cache_*` counted blocks, so those names are left unread
    "prefix_query_tokens": ("vllm:prefix_cache_queries_total",),
    "prefix_hit_tokens": ("vllm:prefix_cache_hits_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "output_tokens": ("vllm:generation_tokens_total",),
    "preemptions": ("vllm:num_preemptions_total",),
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "draft_tokens": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted_tokens": ("vllm:spec_decode_num_accepted_tokens_total",),
}
SHARES: Final = {"kv_used_ratio": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")}


def _version(text: str) -> tuple[Fact, ...]:
    return tuple(facts_at(json_of(text), "version", (("version", "version"),)))


def _server_info(text: str) -> tuple[Fact, ...]:
    """Return the resolved configuration; the text form (before 0.11) is one long word, unread."""
    config = at(json_of(text), "vllm_config")
    facts = (
        *facts_at(config, "server_info", CONFIG_PATHS),
        *weights_at(config, "model_config.quantization"),
    )
    mixes = at(config, "scheduler_config.enable_chunked_prefill")
    if mixes is True:
        # V1, the only engine with this page, lets chunks and decodes share every step
        facts += (Fact(name="mixed_chunk", value=True, source="server_info", text="V1 scheduler"),)
    return facts


PROBES: Final = (
    Probe(path="/version", source="version", read=_version),
    models_probe(),
    # needs VLLM_SERVER_DEV_MODE=1; the only sure source of the chunk size and of max_num_seqs
    Probe(path="/server_info?config_format=json", source="server_info", read=_server_info),
)


def metrics_facts(samples: Iterable[Sample]) -> tuple[Fact, ...]:
    """Return what `/metrics` states: the cache's configuration and the largest step observed."""
    samples = tuple(samples)
    infos = [sample.labels for sample in samples if sample.name == "vllm:cache_config_info"]
    facts = tuple(fact for labels in infos for fact in _cache_facts(labels, len(infos) > 1))
    sizes = [int(fact.value) for fact in facts if fact.name == "engine_kv_tokens"]
    if sizes and len(sizes) == len(infos):
        text = "kv_cache_size_tokens, summed over engines"
        facts += (Fact(name="kv_tokens", value=sum(sizes), source="metrics", text=text),)
    return facts + tuple(_largest_step(samples))


def _cache_facts(labels: Mapping[str, str], several: bool) -> Iterator[Fact]:
    rank = f"DP{labels.get('engine', '0')}" if several else ""
    for label, name in CACHE_LABELS.items():
        value = value_of_label(labels.get(label, "None"))
        if value is not None:
            yield Fact(name=name, value=value, source="metrics", rank=rank, text=label)


def _largest_step(samples: Iterable[Sample]) -> Iterator[Fact]:
    """Yield the bucket that holds the largest step: tokens of prefill and decode together."""
    buckets: dict[float, float] = {}
    for sample in samples:
        if sample.name == "vllm:iteration_tokens_total_bucket" and "le" in sample.labels:
            bound = float(sample.labels["le"])
            buckets[bound] = buckets.get(bound, 0.0) + sample.value
    bounds = sorted(buckets)
    filled = [
        (low, high)
        for low, high in zip([0.0, *bounds], bounds, strict=False)
        if buckets[high] > buckets.get(low, 0.0)
    ]
    if filled:
        low, high = filled[-1]
        text = "vllm:iteration_tokens_total"
        yield Fact(name="step_over_tokens", value=int(low), source="load", text=text)
        if high != float("inf"):
            yield Fact(name="step_at_most_tokens", value=int(high), source="load", text=text)


def counters(samples: Iterable[Sample]) -> dict[str, float]:
    """Return running totals over all engines; the KV share is the engines' mean."""
    samples = tuple(samples)
    return totals(samples, TOTALS, sum) | totals(samples, SHARES, mean)


def _flushed(status: int, body: str) -> bool | None:
    """Judge the answer: from 0.26 on the body tells, before that a 200 says nothing."""
    if status != 200:
        return False
    success = json_of(body).get("success")
    return success if isinstance(success, bool) else None


FLUSH: Final = Flush(method="POST", path="/reset_prefix_cache", done=_flushed)
