"""vLLM's pages: metrics, server information, version, flush."""

from __future__ import annotations

import json
from collections.abc import Iterator

from engines.sim.twin import ITERATION_BOUNDS, Twin


def metrics(twin: Twin) -> str:
    """Return the Prometheus page, in vLLM's names."""
    return "\n".join(_samples(twin)) + "\n"


def server_info(twin: Twin) -> str:
    """Return `/server_info?config_format=json`, with the mark `simulated`."""
    setup = twin.setup
    info = {
        "simulated": True,
        "vllm_config": {
            "model_config": {
                "model": setup.model,
                "dtype": f"torch.{setup.dtype}",
                "max_model_len": setup.context_tokens,
                "quantization": setup.quantization,
                "served_model_name": setup.name,
                "seed": setup.given.get("seed", 0),
                "enforce_eager": not setup.graphs,
            },
            "cache_config": {**_cache_config(twin), "num_gpu_blocks": _blocks(twin)},
            "scheduler_config": {
                "max_num_batched_tokens": setup.chunk_tokens,
                "max_num_seqs": twin.max_running,
                "max_model_len": setup.context_tokens,
                "enable_chunked_prefill": setup.mixed,
            },
            "parallel_config": {"tensor_parallel_size": setup.gpus},
        },
        "vllm_env": {"VLLM_SERVER_DEV_MODE": True},
    }
    return json.dumps(info)


def _blocks(twin: Twin) -> int:
    return twin.kv_tokens // twin.setup.block_tokens


def _cache_config(twin: Twin) -> dict[str, object]:
    setup = twin.setup
    known = {
        "kv_cache_size_tokens": twin.kv_tokens,
        "kv_cache_max_concurrency": round(twin.kv_tokens / setup.context_tokens, 2),
    }
    return {
        "block_size": setup.block_tokens,
        "cache_dtype": setup.kv_dtype,
        "enable_prefix_caching": setup.prefix_cache,
        "gpu_memory_utilization": setup.fraction,
        "kv_cache_memory_bytes": setup.kv_bytes,
        "num_gpu_blocks_override": setup.given.get("num_gpu_blocks_override"),
        **(known if setup.release >= (0, 24) else {}),
    }


def _samples(twin: Twin) -> Iterator[str]:
    scheduler, totals = twin.scheduler, twin.totals
    labels = f'engine="0",model_name="{twin.setup.name}"'
    yield "# This is a simulated engine."
    yield from totals.lateness
    gauges = {
        "num_requests_running": len(scheduler.running),
        "num_requests_waiting": len(scheduler.waiting),
        "kv_cache_usage_perc": twin.used_ratio,
    }
    for name, value in gauges.items():
        yield f"# TYPE vllm:{name} gauge"
        yield f"vllm:{name}{{{labels}}} {float(value)}"
    counters = {
        "prefix_cache_queries": scheduler.query_tokens,
        "prefix_cache_hits": scheduler.hit_tokens,
        "num_preemptions": scheduler.preemptions,
        "prompt_tokens": totals.prompt_tokens,
        "prompt_tokens_cached": scheduler.hit_tokens,
        "generation_tokens": totals.generated_tokens,
    }
    for name, value in counters.items():
        yield f"# TYPE vllm:{name}_total counter"
        yield f"vllm:{name}_total{{{labels}}} {float(value)}"
    yield "# TYPE vllm:request_success_total counter"
    for reason, value in (("length", totals.succeeded), ("abort", totals.aborted)):
        yield (f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(value)}')
    yield from _iterations(twin, labels)
    yield "# TYPE vllm:cache_config_info gauge"
    config = {**_cache_config(twin), "num_gpu_blocks": _blocks(twin)}
    pairs = ",".join(f'{name}="{value}"' for name, value in config.items())
    yield f'vllm:cache_config_info{{{pairs},engine="0"}} 1.0'


def _iterations(twin: Twin, labels: str) -> Iterator[str]:
    totals, name = twin.totals, "vllm:iteration_tokens_total"
    yield f"# TYPE {name} histogram"
    running = 0
    for bound, count in zip((*ITERATION_BOUNDS, "+Inf"), totals.iterations, strict=True):
        running += count
        edge = bound if bound == "+Inf" else f"{bound}.0"
        yield f'{name}_bucket{{{labels},le="{edge}"}} {float(running)}'
    yield f"{name}_sum{{{labels}}} {float(totals.iteration_tokens)}"
    yield f"{name}_count{{{labels}}} {float(totals.steps)}"
