"""What SGLang's log says: prefix, start-up, batches, stop. Formats of 0.5.23."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from engines.sim.dialect import Phase
from engines.sim.profile import GIB
from engines.sim.step import Step
from engines.sim.twin import Twin

GRAPH_BYTES = 300 << 20


def line(text: str) -> str:
    """Return one log line."""
    return f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}"


def phases(twin: Twin) -> Iterator[Phase]:
    """Yield SGLang's start-up: each phase and what is printed at its end."""
    setup, memory = twin.setup, twin.memory
    free = memory.free_bytes / GIB
    weights = memory.weights_bytes / GIB
    start = (
        line(f"server_args={_arguments(twin)}"),
        line("Init torch distributed begin."),
        line("Init torch distributed ends. elapsed=0.31 s, mem usage=0.08 GB"),
        line(f"Load weight begin. avail mem={free:.2f} GB"),
    )
    yield Phase(name="start", share=0.3, lines=start)
    quant = f"quant={setup.quantization}, " if setup.quantization else ""
    loaded = (
        line("Loading weights took 0.62 seconds"),
        line(
            f"Load weight end. elapsed=0.91 s, type={twin.shape.architecture}, {quant}"
            f"avail mem={free - weights:.2f} GB, mem usage={weights:.2f} GB."
        ),
    )
    yield Phase(name="weights", share=0.2, lines=loaded)
    yield Phase(name="profile", share=0.05, lines=_capacity(twin))
    if setup.graphs:
        left = free_after(twin) / GIB
        captured = (
            line(f"Capture target decode CUDA graph begin. avail mem={left + 0.29:.2f} GB"),
            line(
                "Capture target decode CUDA graph end. elapsed=2.77 s, mem usage=0.29 GB, "
                f"avail mem={left:.2f} GB."
            ),
        )
        yield Phase(name="graphs", share=0.25, lines=captured)
    yield Phase(name="serve", share=0.1 if setup.graphs else 0.35, lines=_serve(twin))


def free_after(twin: Twin) -> int:
    """Return the bytes that are free when the server is ready."""
    memory = twin.memory
    pool = twin.kv_tokens * memory.token_bytes
    graphs = GRAPH_BYTES if twin.setup.graphs else 0
    return memory.free_bytes - memory.weights_bytes - pool - graphs


def warm(twin: Twin) -> tuple[str, ...]:
    """Return what is printed once the warm-up request went through."""
    return (
        line(
            f'INFO:     127.0.0.1:{40000 + os.getpid() % 20000} - "POST /generate HTTP/1.1" 200 OK'
        ),
        line("The server is fired up and ready to roll!"),
    )


def prefill_line(twin: Twin, step: Step) -> str:
    """Return the line of a prefill batch."""
    fresh = [request for request, first, _ in step.chunks if first == (request.cached or 0)]
    cached = sum(request.cached or 0 for request in fresh)
    scheduler = twin.scheduler
    return line(
        f"Prefill batch, #new-seq: {len(step.chunks)}, #new-token: {step.chunk_tokens}, "
        f"#cached-token: {cached}, token usage: {twin.used_ratio:.2f}, "
        f"#running-req: {len(scheduler.running)}, #queue-req: {len(scheduler.waiting)}, "
    )


def decode_line(twin: Twin, step: Step, output_per_s: float) -> str:
    """Return the line of every fortieth decode batch."""
    return line(
        f"Decode batch, #running-req: {len(step.decodes)}, "
        f"#token: {twin.cache.used_tokens}, token usage: {twin.used_ratio:.2f}, "
        f"cuda graph: {twin.setup.graphs}, gen throughput (token/s): {output_per_s:.2f}, "
        f"#queue-req: {len(twin.scheduler.waiting)}"
    )


def retract_line(step: Step, ratio: float) -> str:
    """Return the warning of a retraction."""
    return line(
        f"KV cache pool is full. Retract requests. #retracted_reqs: {len(step.preempted)}, "
        f"#new_tokens_gained: {sum(r.total for r in step.preempted)}, "
        f"#new_token_ratio: {ratio:.4f} -> {ratio:.4f}"
    )


def stop_lines() -> tuple[str, ...]:
    """Return what SGLang says between SIGTERM and its end."""
    return (
        line("SIGTERM received. signum=None frame=None. Draining requests and shutting down..."),
        line("Gracefully exiting... Remaining number of requests 0. Remaining requests []"),
    )


def arguments(twin: Twin) -> dict[str, object]:
    """Return the server arguments that matter, as SGLang states them."""
    setup = twin.setup
    return {
        "model_path": setup.model,
        "served_model_name": setup.name,
        "host": setup.host,
        "port": setup.port,
        "dtype": setup.given.get("dtype", "auto"),
        "quantization": setup.quantization,
        "kv_cache_dtype": setup.kv_dtype,
        "context_length": setup.given.get("context_length"),
        "mem_fraction_static": setup.fraction,
        "max_running_requests": setup.max_running,
        "max_total_tokens": setup.kv_tokens,
        "chunked_prefill_size": setup.chunk_tokens or -1,
        "max_prefill_tokens": setup.given.get("max_prefill_tokens", 16_384),
        "enable_mixed_chunk": setup.mixed,
        "disable_radix_cache": not setup.prefix_cache,
        "page_size": setup.block_tokens,
        "tp_size": setup.gpus,
        "attention_backend": setup.given.get("attention_backend", "fa3"),
        "random_seed": setup.given.get("random_seed", 42),
        "disable_cuda_graph": not setup.graphs,
        "enable_cache_report": setup.cached_details,
        "enable_metrics": setup.metrics,
    }


_arguments = arguments


def _capacity(twin: Twin) -> tuple[str, ...]:
    setup, memory = twin.setup, twin.memory
    half = twin.kv_tokens * memory.token_bytes / 2 / GIB
    dtype = "torch.float8_e4m3fn" if setup.kv_dtype.startswith("fp8") else f"torch.{setup.dtype}"
    lines = []
    if setup.kv_tokens is not None and setup.kv_tokens > memory.kv_tokens:
        text = f"max_total_tokens={setup.kv_tokens} is larger than the profiled value "
        lines.append(line(f"{text}{memory.kv_tokens}. Use the profiled value instead."))
    left = (memory.free_bytes - memory.weights_bytes) / GIB - 2 * half
    impl = "RadixCache" if setup.prefix_cache else "ChunkCache"
    lines += [
        line(
            f"KV Cache is allocated. dtype: {dtype}, #tokens: {twin.kv_tokens}, "
            f"K size: {half:.2f} GB, V size: {half:.2f} GB"
        ),
        line(f"Memory pool end. avail mem={left:.2f} GB"),
        line("Init attention backend begin."),
        line("Init attention backend end. elapsed=0.03 s"),
        line(
            f"Tree cache initialized: source=default impl={impl} hybrid_swa=False "
            "hybrid_ssm=False hicache_attached=False"
        ),
    ]
    return tuple(lines)


def _serve(twin: Twin) -> tuple[str, ...]:
    setup = twin.setup
    where = f"http://{setup.host}:{setup.port}"
    return (
        line(
            f"max_total_num_tokens={twin.kv_tokens}, "
            f"chunked_prefill_size={setup.chunk_tokens or -1}, "
            f"max_prefill_tokens={setup.given.get('max_prefill_tokens', 16_384)}, "
            f"max_running_requests={twin.max_running}, context_len={setup.context_tokens}, "
            f"available_gpu_mem={free_after(twin) / GIB:.2f} GB"
        ),
        line(f"INFO:     Started server process [{os.getpid()}]"),
        line("INFO:     Waiting for application startup."),
        line("INFO:     Application startup complete."),
        line(f"INFO:     Uvicorn running on {where} (Press CTRL+C to quit)"),
    )
