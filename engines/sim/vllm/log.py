"""What vLLM's log says: prefixes, start-up, stop. Formats of 0.32.0."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from engines.sim.dialect import Phase
from engines.sim.profile import GIB
from engines.sim.twin import Twin

API, CORE, WORKER = "APIServer", "EngineCore", "Worker"
_PLACE = {API: 0, CORE: 44, WORKER: 65}


def line(process: str, place: str, text: str, level: str = "INFO") -> str:
    """Return one log line of a process, `place` being file and line."""
    stamp = time.strftime("%m-%d %H:%M:%S")
    pid = os.getpid() + _PLACE[process]
    head = f"({process} pid={pid}) {level} {stamp} [{place}] "
    return "\n".join(head + part for part in text.split("\n"))


def phases(twin: Twin) -> Iterator[Phase]:
    """Yield vLLM's start-up: each phase and what is printed at its end."""
    setup, memory = twin.setup, twin.memory
    yield Phase(name="start", share=0.25, lines=_start(twin))
    weights_s = 0.02 * memory.weights_bytes / GIB + 0.1
    weights = memory.weights_bytes / GIB
    yield Phase(
        name="weights",
        share=0.15,
        lines=(
            line(WORKER, "default_loader.py:501", f"Loading weights took {weights_s:.2f} seconds"),
            line(
                WORKER,
                "gpu_model_runner.py:5210",
                f"Model loading took {weights:.2f} GiB memory and {weights_s + 0.4:.6f} seconds",
            ),
        ),
    )
    if setup.graphs:
        yield Phase(name="compile", share=0.3, lines=_compile(twin))
    yield Phase(name="profile", share=0.1, lines=_capacity(twin))
    if setup.graphs:
        captured = "Graph capturing finished in 3 secs, took 0.38 GiB"
        yield Phase(
            name="graphs", share=0.15, lines=(line(WORKER, "gpu_model_runner.py:6301", captured),)
        )
    yield Phase(name="serve", share=0.05 if setup.graphs else 0.5, lines=_serve(twin))


def stop_lines() -> tuple[str, ...]:
    """Return what vLLM says between SIGTERM and its end."""
    api, core = "[shutdown] API server: ", "[shutdown] EngineCore: "
    return (
        line(CORE, "core.py:1454", core + "trigger received signal=SIGTERM"),
        line(API, "launcher.py:254", api + "shutdown triggered"),
        line(API, "launcher.py:270", api + "stopping engine client mode=abort timeout=0s"),
        line(CORE, "core.py:1635", core + "start mode=abort timeout=0s"),
        line(CORE, "core.py:1499", core + "exiting busy loop"),
        line(API, "async_llm.py:906", "AsyncLLM output_handler failed.", "ERROR"),
        line(API, "async_llm.py:906", "Traceback (most recent call last):", "ERROR"),
        line(
            API,
            "async_llm.py:906",
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
            "See stack trace (above) for the root cause.",
            "ERROR",
        ),
        line(API, "launcher.py:304", api + "shutting down FastAPI HTTP server"),
        "INFO:     Shutting down",
        "INFO:     Waiting for application shutdown.",
        "INFO:     Application shutdown complete.",
    )


def reset_lines(twin: Twin, *, done: bool) -> tuple[str, ...]:
    """Return what is said of a reset of the prefix cache."""
    held = twin.cache.used_tokens // twin.setup.block_tokens
    outcome = (
        line(CORE, "block_pool.py:702", "Successfully reset prefix cache")
        if done
        else line(
            CORE,
            "block_pool.py:689",
            f"Failed to reset prefix cache because some blocks ({held}) are not freed yet",
            "WARNING",
        )
    )
    return (line(API, "api_router.py:39", "Resetting prefix cache..."), outcome)


def stats_line(twin: Twin, prompt_per_s: float, output_per_s: float) -> str:
    """Return the line that a busy engine prints every ten seconds."""
    scheduler = twin.scheduler
    hits = 100 * scheduler.hit_tokens / max(1, scheduler.query_tokens)
    return line(
        API,
        "loggers.py:271",
        f"Engine 000: Avg prompt throughput: {prompt_per_s:.1f} tokens/s, "
        f"Avg generation throughput: {output_per_s:.1f} tokens/s, "
        f"Running: {len(scheduler.running)} reqs, Waiting: {len(scheduler.waiting)} reqs, "
        f"GPU KV cache usage: {100 * twin.used_ratio:.1f}%, Prefix cache hit rate: {hits:.1f}%",
    )


def _start(twin: Twin) -> tuple[str, ...]:
    setup = twin.setup
    lines = [
        line(API, "api_utils.py:347", f"vLLM server version {setup.version} (SIMULATED)"),
        line(API, "api_utils.py:286", f"non-default args: {dict(setup.given)}"),
        line(API, "model.py:733", f"Resolved architecture: {twin.shape.architecture}"),
        line(API, "model.py:2152", f"Using max model len {setup.context_tokens}"),
    ]
    if setup.mixed and setup.chunk_tokens != 2048:
        text = f"Chunked prefill is enabled with max_num_batched_tokens={setup.chunk_tokens}."
        lines.append(line(API, "scheduler.py:259", text))
    text = f"Initializing a V1 LLM engine (v{setup.version}) with config: {config(twin)}"
    lines.append(line(CORE, "core.py:133", text))
    text = "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN']."
    lines.append(line(WORKER, "cuda.py:423", text))
    return tuple(lines)


def config(twin: Twin) -> str:
    """Return the engine configuration as one line."""
    setup = twin.setup
    return (
        f"model='{setup.model}', speculative_config=None, tokenizer='{setup.model}', "
        f"revision=None, dtype=torch.{setup.dtype}, max_seq_len={setup.context_tokens}, "
        f"load_format=auto, tensor_parallel_size={setup.gpus}, pipeline_parallel_size=1, "
        f"data_parallel_size=1, quantization={setup.quantization}, "
        f"enforce_eager={not setup.graphs}, kv_cache_dtype={setup.kv_dtype}, device_config=cuda, "
        f"seed={setup.given.get('seed', 0)}, served_model_name={setup.name}, "
        f"enable_prefix_caching={setup.prefix_cache}, enable_chunked_prefill={setup.mixed}"
    )


def _compile(twin: Twin) -> tuple[str, ...]:
    top = twin.setup.chunk_tokens
    if not twin.cold:
        text = f"Directly load the compiled graph(s) for compile range (1, {top}) from the cache, "
        return (line(WORKER, "backends.py:405", f"[backbone] {text}took 1.204 s"),)
    return (
        line(WORKER, "backends.py:1088", "[backbone] Dynamo bytecode transform time: 4.31 s"),
        line(
            WORKER,
            "backends.py:414",
            f"[backbone] Compiling a graph for compile range (1, {top}) takes 13.80 s",
        ),
        line(WORKER, "monitor.py:53", "[backbone] torch.compile took 18.90 s in total"),
    )


def _capacity(twin: Twin) -> tuple[str, ...]:
    setup, memory = twin.setup, twin.memory
    lines = [
        line(WORKER, "monitor.py:91", "[backbone] Initial profiling/warmup run took 0.44 s"),
    ]
    if setup.kv_bytes is None:
        kv = round(memory.kv_bytes / GIB, 2)
        lines.append(line(WORKER, "gpu_worker.py:472", f"Available KV cache memory: {kv} GiB"))
    else:
        text = (
            f"Initial free memory {memory.free_bytes / GIB:.2f} GiB, reserved "
            f"{memory.kv_bytes / GIB:.2f} GiB memory for KV Cache as specified by "
            "kv_cache_memory_bytes config and skipped memory profiling."
        )
        lines.append(line(WORKER, "gpu_worker.py:441", text))
    ratio = twin.kv_tokens / setup.context_tokens
    text = (
        f"GPU KV cache size: {twin.kv_tokens:,} tokens, Maximum concurrency for "
        f"{setup.context_tokens:,} tokens per request: {ratio:.2f}x"
    )
    lines.append(line(CORE, "kv_cache_utils.py:2327", text))
    return tuple(lines)


def _serve(twin: Twin) -> tuple[str, ...]:
    setup = twin.setup
    took = twin.simulate.startup_s or twin.overheads.ready_s
    text = f"init engine (profile, create kv cache, warmup model) took {took * 0.7:.2f} s"
    where = f"Starting vLLM server on http://{setup.host}:{setup.port}"
    return (
        line(CORE, "core.py:402", text),
        line(API, "entry.py:140", where),
        "INFO:     Started server process",
        "INFO:     Waiting for application startup.",
    )
