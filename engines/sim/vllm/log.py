"""What vLLM's log says of a life without faults, by release: start-up, statistics, stop.

The formats of the releases were read from vLLM's sources; a release above 90 speaks words that
no known release does, to try a reader on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engines.sim.dialect import Phase
from engines.sim.profile import GIB
from engines.sim.twin import Twin
from engines.sim.vllm.lines import API, CORE, WORKER, Log

UNKNOWN: Final = (90,)
_KV_PLACE: Final = (
    ((0, 8), 537),
    ((0, 9), 637),
    ((0, 10), 833),
    ((0, 10, 2), 864),
    ((0, 11), 1087),
    ((0, 12), 1286),
    ((0, 14), 1305),
    ((0, 19), 1319),
    ((0, 20), 1708),
    ((0, 24), 2146),
    ((0, 28), 1869),
    ((0, 30), 2395),
    ((0, 31), 2464),
    ((0, 32), 2327),
    ((0, 33), 1147),
)
"""Line of the KV message in its source file, from a release on."""


def log_of(twin: Twin) -> Log:
    """Return the lines of the release that is simulated."""
    return Log(twin.setup.release)


def phases(twin: Twin) -> Iterator[Phase]:
    """Yield vLLM's start-up: each phase and what is printed at its end."""
    graphs = twin.setup.graphs
    yield Phase(name="start", share=0.25, lines=_start(twin))
    yield Phase(name="weights", share=0.15, lines=_weights(twin))
    yield Phase(name="compile", share=0.3, lines=_compile(twin) if graphs else ())
    yield Phase(name="profile", share=0.1, lines=_capacity(twin))
    yield Phase(name="graphs", share=0.15, lines=_graphs(twin) if graphs else ())
    yield Phase(name="serve", share=0.05, lines=_serve(twin))


def stop_lines(twin: Twin) -> tuple[str, ...]:
    """Return what vLLM says between SIGTERM and its end."""
    log, api, core = log_of(twin), "[shutdown] API server: ", "[shutdown] EngineCore: "
    end = (
        "INFO:     Shutting down",
        "INFO:     Waiting for application shutdown.",
        "INFO:     Application shutdown complete.",
    )
    if log.release < (0, 16):
        return end
    place = "async_llm.py:906"
    return (
        log.line(CORE, "core.py:1454", core + "trigger received signal=SIGTERM"),
        log.line(API, "launcher.py:254", api + "shutdown triggered"),
        log.line(API, "launcher.py:270", api + "stopping engine client mode=abort timeout=0s"),
        log.line(CORE, "core.py:1635", core + "start mode=abort timeout=0s"),
        log.line(CORE, "core.py:1499", core + "exiting busy loop"),
        log.line(API, place, "AsyncLLM output_handler failed.", "ERROR"),
        log.line(API, place, "Traceback (most recent call last):", "ERROR"),
        log.line(
            API,
            place,
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
            "See stack trace (above) for the root cause.",
            "ERROR",
        ),
        log.line(API, "launcher.py:304", api + "shutting down FastAPI HTTP server"),
        *end,
    )


def reset_lines(twin: Twin, *, done: bool) -> tuple[str, ...]:
    """Return what is said of a reset of the prefix cache."""
    log, held = log_of(twin), twin.cache.used_tokens // twin.setup.block_tokens
    asked = log.line(API, "api_router.py:39", "Resetting prefix cache...")
    if done:
        return (asked, log.line(CORE, "block_pool.py:702", "Successfully reset prefix cache"))
    text = f"Failed to reset prefix cache because some blocks ({held}) are not freed yet"
    return (asked, log.line(CORE, "block_pool.py:689", text, "WARNING"))


def stats_line(twin: Twin, prompt_per_s: float, output_per_s: float) -> str:
    """Return the line that a busy engine prints every ten seconds."""
    scheduler = twin.scheduler
    hits = 100 * scheduler.hit_tokens / max(1, scheduler.query_tokens)
    return log_of(twin).line(
        API,
        "loggers.py:271",
        f"Engine 000: Avg prompt throughput: {prompt_per_s:.1f} tokens/s, "
        f"Avg generation throughput: {output_per_s:.1f} tokens/s, "
        f"Running: {len(scheduler.running)} reqs, Waiting: {len(scheduler.waiting)} reqs, "
        f"GPU KV cache usage: {100 * twin.used_ratio:.1f}%, Prefix cache hit rate: {hits:.1f}%",
    )


def config(twin: Twin) -> str:
    """Return the engine configuration as one line."""
    setup = twin.setup
    chunked = "enable_chunked_prefill" if setup.release >= (0, 11, 1) else "chunked_prefill_enabled"
    return (
        f"model='{setup.model}', speculative_config=None, tokenizer='{setup.model}', "
        f"revision=None, dtype=torch.{setup.dtype}, max_seq_len={setup.context_tokens}, "
        f"load_format=auto, tensor_parallel_size={setup.gpus}, pipeline_parallel_size=1, "
        f"data_parallel_size=1, quantization={setup.quantization}, "
        f"enforce_eager={not setup.graphs}, kv_cache_dtype={setup.kv_dtype}, device_config=cuda, "
        f"seed={setup.given.get('seed', 0)}, served_model_name={setup.name}, "
        f"enable_prefix_caching={setup.prefix_cache}, {chunked}={setup.mixed}"
    )


def _start(twin: Twin) -> tuple[str, ...]:
    setup, log = twin.setup, log_of(twin)
    api = "" if log.release >= (0, 16) else "API "
    lines = [
        log.line(API, "api_utils.py:347", f"vLLM {api}server version {setup.version}"),
        log.line(API, "api_utils.py:286", f"non-default args: {dict(setup.given)}"),
    ]
    if log.release >= (0, 9, 2):
        lines.append(
            log.line(API, "model.py:733", f"Resolved architecture: {twin.shape.architecture}")
        )
        text = f"Using max model len {setup.context_tokens}"
        lines.append(log.line(API, "model.py:2152", text))
    if setup.mixed and (setup.chunk_tokens != 2048 or log.release < (0, 19)):
        text = f"Chunked prefill is enabled with max_num_batched_tokens={setup.chunk_tokens}."
        lines.append(log.line(API, "scheduler.py:259", text))
    kind = "a V1 LLM" if log.release >= (0, 7, 3) else "an LLM"
    text = f"Initializing {kind} engine (v{setup.version}) with config: {config(twin)}"
    lines.append(log.line(CORE, "core.py:133", text))
    lines.append(log.line(WORKER, "cuda.py:423", _backend(log)))
    return tuple(lines)


def _backend(log: Log) -> str:
    if log.release < (0, 12):
        return "Using Flash Attention backend on V1 engine."
    return "Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN']."


def _weights(twin: Twin) -> tuple[str, ...]:
    log, gib = log_of(twin), twin.memory.weights_bytes / GIB
    took_s = 0.1 + 0.02 * gib
    if log.release >= UNKNOWN:
        text = f"Checkpoint resident: {gib:.2f} GiB in {took_s:.1f}s"
    elif log.release < (0, 8, 1):
        text = f"Loading model weights took {gib:.4f} GB"
    elif log.release < (0, 11, 1):
        text = f"Model loading took {gib:.4f} GiB and {took_s + 0.4:.6f} seconds"
    else:
        text = f"Model loading took {gib:.2f} GiB memory and {took_s + 0.4:.6f} seconds"
    files = f"Loading weights took {took_s:.2f} seconds"
    return (
        log.line(WORKER, "default_loader.py:501", files),
        log.line(WORKER, "gpu_model_runner.py:5210", text),
    )


def _compile(twin: Twin) -> tuple[str, ...]:
    log, top = log_of(twin), twin.setup.chunk_tokens
    part = "[backbone] " if log.release >= (0, 32) else ""
    if not twin.cold:
        text = f"Directly load the compiled graph(s) for compile range (1, {top}) from the cache"
        return (log.line(WORKER, "backends.py:405", f"{part}{text}, took 1.204 s"),)
    took = "took" if log.release >= (0, 18) else "takes"
    graph = f"{part}Compiling a graph for compile range (1, {top}) takes 13.80 s"
    return (
        log.line(WORKER, "backends.py:1088", f"{part}Dynamo bytecode transform time: 4.31 s"),
        log.line(WORKER, "backends.py:414", graph),
        log.line(WORKER, "monitor.py:53", f"{part}torch.compile {took} 18.90 s in total"),
    )


def _capacity(twin: Twin) -> tuple[str, ...]:
    setup, memory, log = twin.setup, twin.memory, log_of(twin)
    gib = memory.kv_bytes / GIB
    if setup.kv_bytes is not None:
        text = (
            f"Initial free memory {memory.free_bytes / GIB:.2f} GiB, reserved "
            f"{gib:.2f} GiB memory for KV Cache as specified by "
            "kv_cache_memory_bytes config and skipped memory profiling."
        )
        lines = [log.line(WORKER, "gpu_worker.py:441", text)]
    elif log.release >= (0, 9, 2):
        shown = f"{gib:.2f}" if log.release < (0, 14) else str(round(gib, 2))
        text = f"Available KV cache memory: {shown} GiB"
        lines = [log.line(WORKER, "gpu_worker.py:472", text)]
    else:
        lines = []
    return (*lines, *_kv_lines(twin, log))


def _kv_lines(twin: Twin, log: Log) -> tuple[str, ...]:
    setup, tokens = twin.setup, twin.kv_tokens
    context, ratio = setup.context_tokens, tokens / setup.context_tokens
    place = f"kv_cache_utils.py:{_kv_place(log)}"
    if log.release >= UNKNOWN:
        return (log.line(CORE, place, f"Cache pool holds {tokens} slots ({ratio:.2f} x context)"),)
    if log.release < (0, 8):
        blocks = f"# GPU blocks: {tokens // setup.block_tokens}, # CPU blocks: 2048"
        most = f"Maximum concurrency for {context} tokens per request: {ratio:.2f}x"
        return (log.line(CORE, "gpu_executor.py:122", blocks), log.line(CORE, place, most))
    size = f"GPU KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {context:,} tokens per request: {ratio:.2f}x"
    if log.release >= (0, 28):
        return (log.line(CORE, place, f"{size}, {most}"),)
    return (log.line(CORE, place, size), log.line(CORE, place, most))


def _kv_place(log: Log) -> int:
    return max((since, line) for since, line in _KV_PLACE if since <= max(log.release, (0, 8)))[1]


def _graphs(twin: Twin) -> tuple[str, ...]:
    text = "Graph capturing finished in 3 secs, took 0.38 GiB"
    return (log_of(twin).line(WORKER, "gpu_model_runner.py:6301", text),)


def _serve(twin: Twin) -> tuple[str, ...]:
    setup, log = twin.setup, log_of(twin)
    took_s = 0.7 * (twin.simulate.startup_s or twin.overheads.ready_s)
    unit = "s" if log.release >= (0, 20) else "seconds"
    text = f"init engine (profile, create kv cache, warmup model) took {took_s:.2f} {unit}"
    kind = "server on" if log.release >= (0, 18) else "API server on"
    where = f"Starting vLLM {kind} http://{setup.host}:{setup.port}"
    return (
        log.line(CORE, "core.py:402", text),
        log.line(API, "entry.py:140", where),
        "INFO:     Started server process",
        "INFO:     Waiting for application startup.",
    )
