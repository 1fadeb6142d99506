"""What vLLM's log says when it ends before its time, in vLLM's own words."""

from __future__ import annotations

from engines.sim.profile import GIB
from engines.sim.twin import Twin
from engines.sim.vllm.lines import API, CORE
from engines.sim.vllm.log import log_of

_GENERIC = "RuntimeError: Engine core initialization failed. See root cause above."
_MORE = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."


def refusal(twin: Twin, phase: str) -> str | None:
    """Return the exception that the memory forces in a phase, None where it suffices."""
    setup, memory, profile = twin.setup, twin.memory, twin.profile
    wanted = profile.memory_bytes * setup.fraction
    if phase == "start" and setup.kv_bytes is None and wanted > memory.free_bytes:
        return (
            f"ValueError: Free memory on device cuda:0 ({memory.free_bytes / GIB:.2f}/"
            f"{profile.memory_bytes / GIB:.2f} GiB) on startup is less than desired GPU memory "
            f"utilization ({setup.fraction}, {wanted / GIB:.2f} GiB). Decrease GPU memory "
            "utilization or reduce GPU memory used by other processes."
        )
    if phase == "weights" and memory.weights_bytes > memory.free_bytes:
        return out_of_memory(twin)
    if phase == "profile" and twin.kv_tokens <= 0:
        return (
            "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine (this flag also controls CPU "
            f"memory reservation on the CPU backend, despite its name). {_MORE}"
        )
    if phase == "profile" and twin.kv_tokens < setup.context_tokens:
        return _too_long(twin)
    return None


def _too_long(twin: Twin) -> str:
    setup, memory = twin.setup, twin.memory
    need = setup.context_tokens * memory.token_bytes / GIB
    return (
        "ValueError: To serve at least one request with the model's max seq len "
        f"({setup.context_tokens}), ({need:.2f} GiB KV cache is needed, which is larger than the "
        f"available KV cache memory ({twin.kv_tokens * memory.token_bytes / GIB:.2f} GiB). Based "
        f"on the available memory, the estimated maximum model length is {twin.kv_tokens}. Try "
        "increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) "
        f"or decreasing `max_model_len` when initializing the engine. {_MORE}"
    )


def out_of_memory(twin: Twin) -> str:
    """Return torch's words for a GPU that is full."""
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a "
        f"total capacity of {twin.profile.memory_bytes / GIB:.2f} GiB of which 118.50 MiB is free."
    )


def crash(twin: Twin, phase: str) -> str:
    """Return the exception of a crash that was ordered for a phase."""
    return {
        "start": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
        "functions before calling NumCudaDevices() that might have already set an error? Error "
        "803: system has unsupported display driver / cuda driver combination",
        "weights": "OSError: You are trying to access a gated repo.\nMake sure to have access to "
        f"it at https://huggingface.co/{twin.setup.model}.\n401 Client Error.",
        "compile": "RuntimeError: Failed to find C compiler. Please specify via CC environment "
        "variable or set triton.knobs.build.impl.",
        "profile": "ValueError: No available memory for the cache blocks. Try increasing "
        f"`gpu_memory_utilization` when initializing the engine. {_MORE}",
        "serve": "OSError: [Errno 98] Address already in use",
    }.get(phase, out_of_memory(twin))


def start_lines(twin: Twin, error: str) -> tuple[str, ...]:
    """Return the log of a failed start: the cause first, then twice more, the generic end last."""
    log = log_of(twin)
    if log.release < (0, 8):
        return ("Traceback (most recent call last):", error)
    core = ("EngineCore failed to start.", "Traceback (most recent call last):", error)
    return (
        *[log.line(CORE, "core.py:1510", text, "ERROR") for text in core],
        "Traceback (most recent call last):",
        error,
        "Traceback (most recent call last):",
        f"{_GENERIC} Failed core proc(s): {{}}",
    )


def death_lines(twin: Twin, error: str) -> tuple[str, ...]:
    """Return the log of an engine that dies while it serves."""
    log = log_of(twin)
    core = ("EngineCore encountered a fatal error.", "Traceback (most recent call last):", error)
    dead = "AsyncLLM output_handler failed."
    return (
        *[log.line(CORE, "core.py:1519", text, "ERROR") for text in core],
        log.line(API, "async_llm.py:906", dead, "ERROR"),
        log.line(
            API,
            "async_llm.py:906",
            "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
            "See stack trace (above) for the root cause.",
            "ERROR",
        ),
        "INFO:     Shutting down",
    )
