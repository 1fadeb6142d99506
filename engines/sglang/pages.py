"""SGLang's pages: what they state, and how the prefix cache is emptied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from engines import Fact, Flush, Probe, Sample
from engines.pages import (
    at,
    bytes_of_gib,
    facts_at,
    json_of,
    mean,
    models_probe,
    totals,
    weights_at,
)

ARGUMENT_PATHS: Final = (
    ("version", "version"),
    ("context_tokens", "context_length"),
    ("max_prefill_tokens", "max_prefill_tokens"),
    ("mixed_chunk", "enable_mixed_chunk"),
    ("memory_fraction", "mem_fraction_static"),
    ("dtype", "dtype"),
    ("kv_dtype", "kv_cache_dtype"),
    ("attention_backend", "attention_backend"),
    ("block_tokens", "page_size"),
    ("server_seed", "random_seed"),
    ("tensor_parallel", "tp_size"),
    ("pipeline_parallel", "pp_size"),
    ("data_parallel", "dp_size"),
)

GAUGES: Final = {
    "sglang:page_size": ("block_tokens", 1),
    "sglang:context_len": ("context_tokens", 1),
    "sglang:weight_memory_usage_gb": ("weights_bytes", 2**30),
    "sglang:kv_cache_memory_usage_gb": ("kv_bytes", 2**30),
    "sglang:max_total_num_tokens_swa": ("swa_tokens", 1),
    "sglang:hicache_host_total_tokens": ("hicache_tokens", 1),
}

TOTALS: Final = {
    "prefix_query_tokens": ("sglang:prompt_tokens_total",),
    "prefix_hit_tokens": ("sglang:cached_tokens_total",),
    "prompt_tokens": ("sglang:prompt_tokens_total",),
    "output_tokens": ("sglang:generation_tokens_total",),
    "preemptions": ("sglang:num_retracted_requests_total",),
    "running": ("sglang:num_running_reqs",),
    "waiting": ("sglang:num_queue_reqs",),
}
SHARES: Final = {
    "kv_used_ratio": ("sglang:token_usage",),
    "accepted_ratio": ("sglang:spec_accept_rate",),
}


def _server_info(text: str) -> tuple[Fact, ...]:
    """Return what the server was given and what each data-parallel rank made of it."""
    page = json_of(text)
    asked = facts_at(page, "server_info", ARGUMENT_PATHS)
    # `auto` is what was asked, not what was decided
    facts = [*(fact for fact in asked if fact.value != "auto"), *_switches(page)]
    facts += weights_at(page, "quantization")
    states = page.get("internal_states")
    listed = states if isinstance(states, list) else []
    ranks = [state for state in listed if isinstance(state, dict)]
    for number, state in enumerate(ranks):
        facts += _rank_facts(state, f"DP{number}" if len(ranks) > 1 else "")
    return (*facts, *_capacity(page, facts, len(ranks)))


def _switches(page: dict[str, Any]) -> Iterator[Fact]:
    off = page.get("disable_radix_cache")
    if isinstance(off, bool):
        text = "disable_radix_cache"
        yield Fact(name="prefix_cache", value=not off, source="server_info", text=text)
    eager = page.get("disable_cuda_graph")
    if isinstance(eager, bool):
        text = "disable_cuda_graph"
        yield Fact(name="enforce_eager", value=eager, source="server_info", text=text)
    chunk = page.get("chunked_prefill_size")
    if isinstance(chunk, int) and not isinstance(chunk, bool):
        text = "chunked_prefill_size"
        yield Fact(name="chunked_prefill", value=chunk > 0, source="server_info", text=text)
        if chunk > 0:
            yield Fact(name="chunk_tokens", value=chunk, source="server_info", text=text)


def _rank_facts(state: dict[str, Any], rank: str) -> Iterator[Fact]:
    paths = (
        # the limit in force; the page's own max_running_requests is only what was asked
        ("max_running", "effective_max_running_requests_per_dp"),
        ("engine_kv_tokens", "memory_usage.token_capacity"),
        ("swa_tokens", "memory_usage.token_capacity_swa"),
    )
    yield from facts_at(state, "server_info", paths, rank)
    for name, path in (("weights_bytes", "weight"), ("kv_bytes", "kvcache")):
        size = bytes_of_gib(at(state, f"memory_usage.{path}"))
        if size is not None:
            text = f"memory_usage.{path}"
            yield Fact(name=name, value=size, source="server_info", rank=rank, text=text)


def _capacity(page: dict[str, Any], facts: list[Fact], ranks: int) -> Iterator[Fact]:
    """Yield the capacity over all ranks, from each rank's own or from the single one stated."""
    sizes = [fact.value for fact in facts if fact.name == "engine_kv_tokens"]
    if sizes and len(sizes) == ranks:
        total = sum(int(size) for size in sizes)
        text = "memory_usage.token_capacity, summed over ranks"
        yield Fact(name="kv_tokens", value=total, source="server_info", text=text)
    elif page.get("dp_size") in (1, None):
        paths = (("kv_tokens", "max_total_num_tokens"),)
        yield from facts_at(page, "server_info", paths)


PROBES: Final = (
    models_probe(),
    Probe(path="/server_info", source="server_info", read=_server_info),
    # the only name before 0.5.6, still answered by 0.5.23
    Probe(path="/get_server_info", source="server_info", read=_server_info),
)


def metrics_facts(samples: Iterable[Sample]) -> tuple[Fact, ...]:
    """Return what `/metrics` states once per data-parallel rank, and the capacity of all."""
    samples = one_per_rank(samples)
    facts = [
        Fact(
            name=GAUGES[sample.name][0],
            value=round(sample.value * GAUGES[sample.name][1]),
            source="metrics",
            rank=_dp(sample),
            text=sample.name,
        )
        for sample in samples
        if sample.name in GAUGES and sample.value > 0
    ]
    sizes = [sample.value for sample in samples if sample.name == "sglang:max_total_num_tokens"]
    if sizes:
        text = "sglang:max_total_num_tokens"
        facts.append(Fact(name="kv_tokens", value=int(sum(sizes)), source="metrics", text=text))
    return tuple(facts)


def counters(samples: Iterable[Sample]) -> dict[str, float]:
    """Return running totals over all data-parallel ranks; the KV share is their mean.

    SGLang's own warm-up prompts are counted by it too: only differences mean something. The hits
    are absent before the first one, so a page that bears a sample of 0.5.6 or newer (the hits
    are older) and no hits has none. So are retractions: their total is older than the page size.
    """
    samples = one_per_rank(samples)
    found = totals(samples, TOTALS, sum) | totals(samples, SHARES, mean)
    names = {sample.name for sample in samples}
    if "sglang:max_total_num_tokens" in names:
        found.setdefault("prefix_hit_tokens", 0.0)
        found.setdefault("prefix_query_tokens", 0.0)
    if "sglang:page_size" in names:
        found.setdefault("preemptions", 0.0)
    return found


def one_per_rank(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return one series per data-parallel rank where every tensor-parallel rank reports.

    Series broken down by priority are left out: the series without one is their total.
    """
    best: dict[tuple[object, ...], tuple[tuple[int, int], Sample]] = {}
    for sample in samples:
        if sample.labels.get("priority"):
            continue
        order = (_number(sample, "pp_rank"), _number(sample, "tp_rank"))
        kind = sample.labels.items() - {
            (name, sample.labels.get(name, "")) for name in ("tp_rank", "pp_rank", "moe_ep_rank")
        }
        key = (sample.name, frozenset(kind))
        if key not in best or order < best[key][0]:
            best[key] = (order, sample)
    return tuple(sample for _, sample in best.values())


def _number(sample: Sample, label: str) -> int:
    text = sample.labels.get(label, "")
    return int(text) if text.isdigit() else 0


def _dp(sample: Sample) -> str:
    rank = sample.labels.get("dp_rank", "")
    return f"DP{rank}" if rank.isdigit() else ""


def _flushed(status: int, body: str) -> bool | None:
    """Judge the answer: 400 means not emptied."""
    del body
    return status == 200


FLUSH: Final = Flush(method="POST", path="/flush_cache", done=_flushed, sure_from=(0, 4, 6))
"""Before 0.4.6 a 200 also came when requests were pending and nothing was emptied."""
