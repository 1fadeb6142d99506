"""What SGLang's log says of a life without faults, by release: start-up, batches, stop.

The formats of the releases were read from SGLang's packages; a release above 90 speaks words that
no known release does, to try a reader on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final

from engines.sim.dialect import Phase
from engines.sim.profile import GIB
from engines.sim.step import Step
from engines.sim.twin import Twin

GRAPH_BYTES: Final = 300 << 20
UNKNOWN: Final = (90,)


def line(text: str) -> str:
    """Return one log line."""
    return f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}"


def phases(twin: Twin) -> Iterator[Phase]:
    """Yield SGLang's start-up: each phase and what is printed at its end."""
    graphs = twin.setup.graphs
    yield Phase(name="start", share=0.3, lines=_start(twin))
    yield Phase(name="weights", share=0.2, lines=_weights(twin))
    yield Phase(name="compile", share=0.0)  # it compiles nothing unless told to
    yield Phase(name="profile", share=0.05, lines=_capacity(twin))
    yield Phase(name="graphs", share=0.25, lines=_graphs(twin) if graphs else ())
    yield Phase(name="serve", share=0.1, lines=_serve(twin))


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


def _start(twin: Twin) -> tuple[str, ...]:
    given = arguments(twin)
    if twin.setup.release < (0, 5, 19):
        shown = (
            "ServerArgs(" + ", ".join(f"{name}={value!r}" for name, value in given.items()) + ")"
        )
    else:
        shown = str(given)
    took = "elapsed=0.31 s, " if twin.setup.release >= (0, 5) else ""
    return (
        line(f"server_args={shown}"),
        line("Init torch distributed begin."),
        line(f"Init torch distributed ends. {took}mem usage=0.08 GB"),
        line(f"Load weight begin. avail mem={twin.memory.free_bytes / GIB:.2f} GB"),
    )


def _weights(twin: Twin) -> tuple[str, ...]:
    setup, weights = twin.setup, twin.memory.weights_bytes / GIB
    left = twin.memory.free_bytes / GIB - weights
    took = "elapsed=0.91 s, " if setup.release >= (0, 5, 9) else ""
    quant = f"dtype=torch.{setup.dtype}, " if setup.release < (0, 5, 10) else ""
    if setup.release >= (0, 5, 10) and setup.quantization:
        quant = f"quant={setup.quantization}, "
    text = (
        f"Load weight end. {took}type={twin.shape.architecture}, {quant}"
        f"avail mem={left:.2f} GB, mem usage={weights:.2f} GB."
    )
    if setup.release >= UNKNOWN:
        text = f"Checkpoint resident: {weights:.2f} GiB"
    return (line("Loading weights took 0.62 seconds"), line(text))


def _capacity(twin: Twin) -> tuple[str, ...]:
    setup, memory = twin.setup, twin.memory
    lines = []
    if setup.kv_tokens is not None and setup.kv_tokens > memory.kv_tokens:
        text = f"max_total_tokens={setup.kv_tokens} is larger than the profiled value "
        lines.append(line(f"{text}{memory.kv_tokens}. Use the profiled value instead."))
    pool = twin.kv_tokens * memory.token_bytes / GIB
    left = (memory.free_bytes - memory.weights_bytes) / GIB - pool
    lines += [
        line(_pool(twin, pool / 2)),
        line(f"Memory pool end. avail mem={left:.2f} GB"),
        line("Init attention backend begin."),
        line("Init attention backend end. elapsed=0.03 s"),
    ]
    if setup.release >= (0, 5, 13):
        impl = "RadixCache" if setup.prefix_cache else "ChunkCache"
        text = f"Tree cache initialized: source=default impl={impl} hybrid_swa=False "
        lines.append(line(f"{text}hybrid_ssm=False hicache_attached=False"))
    return tuple(lines)


def _pool(twin: Twin, half: float) -> str:
    """Return the line of the KV pool; `half` is the size of K, in GiB, and of V."""
    setup = twin.setup
    dtype = "torch.float8_e4m3fn" if setup.kv_dtype.startswith("fp8") else f"torch.{setup.dtype}"
    if setup.release >= UNKNOWN:
        return f"Cache pool holds {twin.kv_tokens} slots in {2 * half:.2f} GiB"
    kind = f"dtype: {dtype}, " if setup.release >= (0, 5, 13) else ""
    tokens = f"#tokens: {twin.kv_tokens}, " if setup.release >= (0, 4, 3) else ""
    end = "." if setup.release < (0, 4, 3) else ""
    return f"KV Cache is allocated. {kind}{tokens}K size: {half:.2f} GB, V size: {half:.2f} GB{end}"


def _graphs(twin: Twin) -> tuple[str, ...]:
    left, release = free_after(twin) / GIB, twin.setup.release
    if release >= (0, 5, 14):
        return (
            line(f"Capture target decode CUDA graph begin. avail mem={left + 0.29:.2f} GB"),
            line(
                "Capture target decode CUDA graph end. elapsed=2.77 s, mem usage=0.29 GB, "
                f"avail mem={left:.2f} GB."
            ),
        )
    used, free = "mem usage=0.29 GB.", f"avail mem={left:.2f} GB."
    sizes = f"{used} {free}" if release >= (0, 4, 6) else f"{free} {used}"
    return (line(f"Capture cuda graph end. Time elapsed: 2.77 s. {sizes}"),)


def _serve(twin: Twin) -> tuple[str, ...]:
    setup = twin.setup
    where = f"http://{setup.host}:{setup.port}"
    return (
        line(_summary(twin)),
        line(f"INFO:     Started server process [{os.getpid()}]"),
        line("INFO:     Waiting for application startup."),
        line("INFO:     Application startup complete."),
        line(f"INFO:     Uvicorn running on {where} (Press CTRL+C to quit)"),
    )


def _summary(twin: Twin) -> str:
    setup = twin.setup
    if setup.release >= UNKNOWN:
        return f"scheduler limits: slots={twin.kv_tokens} chunk={setup.chunk_tokens}"
    chunk = f"chunked_prefill_size={setup.chunk_tokens or -1}, "
    text = (
        f"max_total_num_tokens={twin.kv_tokens}, {chunk if setup.release >= (0, 4, 2) else ''}"
        f"max_prefill_tokens={setup.given.get('max_prefill_tokens', 16_384)}, "
        f"max_running_requests={twin.max_running}, context_len={setup.context_tokens}"
    )
    if setup.release >= (0, 4, 7):
        text += f", available_gpu_mem={free_after(twin) / GIB:.2f} GB"
    return text
