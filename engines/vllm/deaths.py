"""Why a vLLM server dies, in its own words."""

from __future__ import annotations

import re
from typing import Final

from engines.grammar import Death

DEATHS: Final = (
    Death("kv_no_memory", "No available memory for the cache blocks"),
    Death("kv_too_small_for_max_model_len", "To serve at least one request with the model"),
    Death(
        "kv_too_small_for_max_model_len",
        "The model's max seq len (",
        re.compile(r"is larger than the maximum number of tokens"),
    ),
    Death("mamba_cache_too_small", "exceeds available Mamba cache blocks", bare=True),
    Death(
        "gpu_memory_busy",
        "Free memory on device",
        re.compile(r"is less than desired GPU memory utilization"),
    ),
    Death(
        "gpu_memory_busy",
        "Available memory on node ",
        re.compile(r"is\s+less than (?:desired|req)"),
    ),
    Death("gpu_memory_busy", "Error in memory profiling"),
    Death("oom_load", "Failed to load model - not enough GPU memory"),
    Death("oom_warmup", "CUDA out of memory occurred when warming up"),
    Death(
        "context_len_too_long",
        "User-specified max_model_len (",
        re.compile(r"is greater than the derived max_model_len"),
    ),
    Death("bad_config", "max_num_batched_tokens (", re.compile(r"is smaller than max_")),
    Death("bad_config", "ValidationError: ", bare=True, weak=True),
    Death("dtype_unsupported", "FP8 KV cache is not supported"),
    Death(
        "backend_unsupported",
        " is not valid for this configuration",
        re.compile(r"Selected backend .* is not valid for this configuration"),
    ),
    Death("backend_unsupported", "No valid attention backend found"),
    Death(
        "model_unsupported",
        " has no vLLM implementation",
        re.compile(r"\S+ has no vLLM implementation"),
    ),
)

TAILS: Final = (
    "EngineCore failed to start",
    "EngineCore hit an exception",
    "EngineCore encountered a fatal error",
    "EngineDeadError",
    "WorkerProc failed to start",
    "WorkerProc initialization failed",
    "WorkerProc hit an exception",
    "Engine core initialization failed",
    "Engine process failed to start",
    "died unexpectedly",
    "Error executing method ",
    "Engine loop is not running",
)
