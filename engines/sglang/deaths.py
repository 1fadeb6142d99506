"""Why an SGLang server dies, in its own words."""

from __future__ import annotations

import re
from typing import Final

from engines.grammar import Death

DEATHS: Final = (
    Death("kv_no_memory", "Not enough memory. Please try to increase --mem-fraction-static"),
    Death("kv_no_memory", "Loaded weights leave no GPU memory for the KV cache"),
    Death(
        "kv_no_memory",
        "is larger than the profiled value",
        re.compile(r"profiled value -\d"),
        bare=True,
        weak=True,
    ),
    Death(
        "kv_no_memory",
        "full_layer_tokens=",
        re.compile(r"full_layer_tokens=-\d"),
        bare=True,
        weak=True,
    ),
    Death("mamba_cache_too_small", "Hybrid (mamba/linear-attention) state cache is too small"),
    Death(
        "mamba_cache_too_small",
        "Not enough GPU memory for hybrid (mamba/linear-attention) state cache",
    ),
    Death("gpu_memory_busy", "The memory capacity is unbalanced"),
    # cuda, prefill CUDA, frozen-KV MTP cuda, CPU: each release has more kinds of graphs
    Death(
        "oom_graph_capture",
        " graph failed: ",
        re.compile(r"Capture [\w -]+ graph failed: .*out of memory"),
        bare=True,
    ),
    Death(
        "graph_capture_failed",
        " graph failed: ",
        re.compile(r"Capture [\w -]+ graph failed: "),
        weak=True,
    ),
    Death(
        "oom_serving",
        " out of memory. Try to lower your batch size",
        re.compile(r"\b(?:Decode|Prefill|Extend) out of memory\."),
        bare=True,
    ),
    Death("oom_serving", "alloc_req_slots runs out of memory"),
    Death("hicache_host_memory", "Not enough host memory available. Requesting"),
    # while serving, "for request ..." says that one of them is not moved to the host
    Death(
        "hicache_host_memory",
        "Not enough host memory for ",
        re.compile(r"Not enough host memory for (?!request )"),
    ),
    Death("hicache_host_memory", "No host memory is left for HiCache"),
    Death("port_in_use", "Port is already in use. dist_init_port="),
    Death(
        "context_len_too_long",
        "User-specified context_length (",
        re.compile(r"is greater than the derived context_length"),
    ),
    Death(
        "port_in_use",
        " is not available in ",
        re.compile(r"[\w ]+ at \d+ is not available in \d+ s"),
    ),
    Death("quantization_unsupported", "Quantization scheme requiring compute capability"),
    Death("quantization_unsupported", "Invalid quant_config, quantization method"),
    Death(
        "backend_unsupported",
        " backend is not supported on ",
        re.compile(r"[\w-]+(?: \w+)* backend is not supported on "),
    ),
)

TAILS: Final = (
    "Scheduler hit an exception",
    "TpModelWorkerClient hit an exception",
    "DataParallelController hit an exception",
    "DetokenizerManager hit an exception",
    "TokenizerManager hit an exception",
    "scheduler is dead",
    "scheduler died",
    "Initialization failed. Please see the error messages above",
    "Child process unexpectedly failed with an exit code",
    "SIGQUIT received",
    "Received sigquit from a child process",
    " crashed with exit code ",
)
