"""What any Python server on a GPU dies of, whatever the engine."""

from __future__ import annotations

import re
from typing import Final

from engines.grammar import Death

_DRIVER: Final = (
    "system has unsupported display driver / cuda driver combination",
    "forward compatibility was attempted on non supported HW",
    "The NVIDIA driver on your system is too old",
    "CUDA driver version is insufficient for CUDA runtime version",
    "no kernel image is available for execution on the device",
    "CUDA error: no CUDA-capable device is detected",
    "Found no NVIDIA driver on your system",
)
_GATED: Final = (
    "You are trying to access a gated repo",
    "Cannot access gated repo",
    "GatedRepoError",
)
_MISSING: Final = (
    "is not a local folder and is not a valid model identifier",
    "RepositoryNotFoundError",
    "LocalEntryNotFoundError",
    "Invalid repository ID or local directory specified",
    "couldn't find them in the cached files",
    "couldn't find it in the cached files",
    "does not appear to have a file named",
    "Repo id must be in the form",
    "Repo id must use alphanumeric chars",
    "RevisionNotFoundError",
    "OfflineModeIsEnabled",
)
_NCCL: Final = ("ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "NCCL error")

# what both engines took over from the same model configuration code
_MODEL: Final = (
    Death(
        "bad_config",
        "must be divisible by tensor parallel size",
        re.compile(r"[\w ]+(?:\(\d+\))? must be divisible by tensor parallel size"),
    ),
    Death(
        "dtype_unsupported",
        "is not supported for quantization method",
        re.compile(r"\S+ is not supported for quantization method"),
    ),
    Death("dtype_unsupported", "Bfloat16 is only supported on GPUs with compute capability"),
    Death("dtype_unsupported", "FP8 KV cache on CPU requires"),
    Death("dtype_unsupported", "CPU FP8 KV cache requires"),
    Death("quantization_unsupported", "Unknown quantization method"),
    Death("quantization_unsupported", "Invalid quantization method"),
    Death("quantization_unsupported", "Cannot find the config file for "),
    Death("quantization_unsupported", "Quantization method specified in the model config"),
    Death(
        "quantization_unsupported",
        "The quantization method ",
        re.compile(r"is not supported for the current GPU"),
    ),
    Death(
        "quantization_unsupported",
        "quantization is currently not",
        re.compile(r"\S+ quantization is currently not\s+supported"),
    ),
    Death(
        "model_unsupported",
        "are not supported for now",
        re.compile(r"Model architectures .* are not supported for now"),
    ),
)

DEATHS: Final = (
    *(Death("driver_mismatch", text, bare=True) for text in _DRIVER),
    *(Death("gated_model", text, bare=True) for text in _GATED),
    *(Death("model_not_found", text, bare=True) for text in _MISSING),
    *(Death("nccl_failed", text) for text in _NCCL),
    *_MODEL,
    # the engines' own out-of-memory texts tell the phase; these do not
    Death("oom", " out of memory", re.compile(r"\b(?:CUDA|HIP|XPU|NPU|MUSA|GPU) out of memory")),
    Death("oom", "CUDA error: out of memory"),
    Death("oom", "OutOfMemoryError: ", weak=True),
    Death("port_in_use", "Address already in use"),
    Death("port_in_use", "address already in use"),
    Death("port_in_use", "The server socket has failed to listen"),
    Death("port_in_use", "error while attempting to bind on address", bare=True),
    Death("no_compiler", "Failed to find C compiler"),
    Death("shm_too_small", "Insufficient space in /dev/shm"),
    Death("shm_too_small", "No space left on device", re.compile(r"/dev/sh[m]")),
    Death("disk_full", "No space left on device"),
    Death("shm_too_small", "Bus error", re.compile(r"^(?:Fatal Python error: )?Bus error")),
    # a process was killed from outside, and nobody says more
    Death("killed", "xit code: -9", bare=True, weak=True),
    Death("killed", "exit code -9", bare=True, weak=True),
    Death("host_memory", "Cannot allocate memory"),
    Death("host_memory", "DefaultCPUAllocator: can't allocate memory", bare=True),
    Death("host_memory", "MemoryError", re.compile(r"^MemoryError")),
    Death(
        "bad_flag",
        "error: ",
        re.compile(
            r"^(?:[\w./-]+(?: serve)?: )?error: (?:unrecognized arguments|argument |ambiguous "
            r"option|the following arguments are required|one of the arguments)"
        ),
        bare=True,
    ),
)

TAILS: Final = ("Traceback (most recent call last)",)
