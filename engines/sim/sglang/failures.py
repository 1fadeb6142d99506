"""What SGLang's log says when it ends before its time, in SGLang's own words."""

from __future__ import annotations

import math

from engines.sim.profile import GIB
from engines.sim.sglang.log import free_after, line
from engines.sim.twin import Twin


def refusal(twin: Twin, phase: str) -> str | None:
    """Return the exception that the memory forces in a phase, None where it suffices."""
    memory = twin.memory
    if phase == "weights" and memory.weights_bytes > memory.free_bytes:
        return out_of_memory(twin)
    if phase == "profile" and memory.kv_bytes <= 0 and twin.setup.release >= (0, 5, 14):
        return _no_room(twin)
    if phase == "profile" and twin.kv_tokens <= 0:
        return no_memory(twin)
    if phase == "graphs" and twin.setup.graphs and free_after(twin) < 0:
        return no_graphs(twin)
    return None


def _no_room(twin: Twin) -> str:
    least = twin.memory.weights_bytes / twin.memory.free_bytes
    return (
        "ValueError: Loaded weights leave no GPU memory for the KV cache under "
        f"--mem-fraction-static={twin.setup.fraction}. Raise --mem-fraction-static above "
        f"{math.ceil(least * 1000) / 1000:.3f} (minimum viable = 1 - available/pre = {least:.4f}). "
        "If using speculative decoding, draft weights are now counted."
    )


def no_memory(twin: Twin) -> str:
    """Return SGLang's words for a fraction that leaves nothing for KV."""
    value = f" Current value: mem_fraction_static={twin.setup.fraction}"
    value = value if twin.setup.release >= (0, 5, 3) else ""
    return f"RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.{value}"


def no_graphs(twin: Twin) -> str:
    """Return SGLang's words for CUDA graphs that found no memory."""
    return (
        f"Exception: Capture cuda graph failed: {out_of_memory(twin).partition(': ')[2]}\n"
        "Possible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)"
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
        "start": "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has "
        "unsupported display driver / cuda driver combination",
        "weights": "OSError: You are trying to access a gated repo.\nMake sure to have access to "
        f"it at https://huggingface.co/{twin.setup.model}.\n401 Client Error.",
        "profile": no_memory(twin),
        "graphs": no_graphs(twin),
        "serve": "ERROR:    [Errno 98] error while attempting to bind on address "
        f"('{twin.setup.host}', {twin.setup.port}): address already in use",
    }.get(phase, out_of_memory(twin))


def start_lines(twin: Twin, error: str) -> tuple[str, ...]:
    """Return the log of a failed start: the scheduler's exception, then the parent's."""
    if error.startswith("ERROR:"):
        return (line(error),)
    return (
        line("Scheduler hit an exception: Traceback (most recent call last):"),
        '  File "sglang/srt/managers/scheduler.py", line 4920, in run_scheduler_process',
        error,
        "",
        line(
            "Received sigquit from a child process. It usually means the child failed."
            if twin.setup.release < (0, 5)
            else "Rank 0 scheduler died during initialization (exit code: -3). "
            "If exit code is -9 (SIGKILL), a common cause is the OS OOM killer."
        ),
    )


def death_lines(twin: Twin, error: str) -> tuple[str, ...]:
    """Return the log of an engine that dies while it serves."""
    return (
        line("Scheduler hit an exception: Traceback (most recent call last):"),
        error,
        "",
        line("Received sigquit from a child process. It usually means the child failed."),
    )


def late_kernel_line(twin: Twin) -> str | None:
    """Return the warning of a kernel loaded late, None where memory is ample."""
    free = spare_bytes(twin) / GIB
    if free >= 1.0 or twin.setup.release < (0, 5, 18):
        return None
    return line(
        "Triton kernel 'apply_token_bitmask_inplace_kernel' device-loaded after serving started "
        f"(free device mem: {max(free, 0.0):.2f} GiB). Pre-load it during engine init to avoid "
        "CUDA OOM."
    )


def spare_bytes(twin: Twin) -> float:
    """Return what serving leaves of the GPU's memory; below the grammar's need it ends."""
    return free_after(twin) - twin.overheads.working_bytes
