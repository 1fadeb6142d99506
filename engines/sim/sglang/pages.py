"""SGLang's pages: metrics, server information."""

from __future__ import annotations

import json
from collections.abc import Iterator

from engines.sim.profile import GIB
from engines.sim.sglang import log
from engines.sim.twin import Twin


def server_info(twin: Twin) -> str:
    """Return `/server_info`, with the mark `simulated`."""
    setup, memory = twin.setup, twin.memory
    state = {
        "memory_usage": {
            "weight": round(memory.weights_bytes / GIB, 2),
            "kvcache": round(twin.kv_tokens * memory.token_bytes / GIB, 2),
            "token_capacity": twin.kv_tokens,
            "graph": {"decode": round(log.GRAPH_BYTES / GIB, 2)} if setup.graphs else {},
            "startup_available": round(memory.free_bytes / GIB, 2),
        },
        "effective_max_running_requests_per_dp": twin.max_running,
        "last_gen_throughput": 0.0,
    }
    info = {
        "simulated": True,
        **log.arguments(twin),
        "status": "ready",
        "max_total_num_tokens": twin.kv_tokens,
        "max_req_input_len": setup.context_tokens - 6,
        "internal_states": [state],
        "version": setup.version,
    }
    return json.dumps(info)


def model_info(twin: Twin) -> str:
    """Return `/model_info`."""
    setup = twin.setup
    info = {
        "simulated": True,
        "model_path": setup.model,
        "tokenizer_path": setup.model,
        "is_generation": True,
        "weight_version": "default",
        "architectures": [twin.shape.architecture],
    }
    return json.dumps(info)


def metrics(twin: Twin) -> str:
    """Return the Prometheus page, in SGLang's names."""
    return "\n".join(_samples(twin)) + "\n"


def _samples(twin: Twin) -> Iterator[str]:
    scheduler, totals, memory = twin.scheduler, twin.totals, twin.memory
    labels = f'engine_type="unified",model_name="{twin.setup.name}",pp_rank="0",tp_rank="0"'
    yield "# This is a simulated engine."
    yield from totals.lateness
    gauges = {
        "num_running_reqs": len(scheduler.running),
        "num_queue_reqs": len(scheduler.waiting),
        "num_used_tokens": twin.cache.used_tokens,
        "token_usage": twin.used_ratio,
        "full_token_usage": twin.used_ratio,
        "cache_hit_rate": scheduler.hit_tokens / max(1, scheduler.query_tokens),
        "kv_available_tokens": twin.cache.available_tokens,
        "kv_used_tokens": twin.cache.used_tokens,
        "max_total_num_tokens": twin.kv_tokens,
        "page_size": twin.setup.block_tokens,
        "num_pages": twin.kv_tokens // twin.setup.block_tokens,
        "context_len": twin.setup.context_tokens,
        "weight_memory_usage_gb": memory.weights_bytes / GIB,
        "kv_cache_memory_usage_gb": twin.kv_tokens * memory.token_bytes / GIB,
        "startup_available_gpu_memory_gb": memory.free_bytes / GIB,
    }
    for name, value in gauges.items():
        yield f"# TYPE sglang:{name} gauge"
        yield f"sglang:{name}{{{labels}}} {float(value)}"
    streamed = f'{labels},is_streaming="True"'
    computed = scheduler.query_tokens - scheduler.hit_tokens
    counters = [
        ("prompt_tokens_total", streamed, totals.prompt_tokens),
        ("generation_tokens_total", streamed, totals.generated_tokens),
        ("num_requests_total", streamed, totals.succeeded),
        ("num_retracted_requests_total", labels, scheduler.preemptions),
        ("realtime_tokens_total", f'{labels},mode="prefill_compute"', computed),
        ("realtime_tokens_total", f'{labels},mode="prefill_cache"', scheduler.hit_tokens),
        ("realtime_tokens_total", f'{labels},mode="decode"', totals.generated_tokens),
        ("prefill_effective_tokens_total", f'{labels},mode="input"', computed),
    ]
    if scheduler.hit_tokens:  # a labelled counter appears with its first count
        hits = scheduler.hit_tokens
        counters.append(("cached_tokens_total", f'{labels},cache_source="device"', hits))
        counters.append(("prefill_effective_tokens_total", f'{labels},mode="device_hit"', hits))
    for name, marks, value in counters:
        yield f"sglang:{name}{{{marks}}} {float(value)}"
