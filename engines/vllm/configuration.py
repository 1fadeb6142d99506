"""What vLLM's long lines state: its configuration, its arguments, its memory."""

from __future__ import annotations

from typing import Final

from engines.grammar import Field, fact, quantized

_END: Final = r"(?=[,)\s\]}]|$)"


def _key(name: str, key: str, value: str) -> Field:
    """Return a field of a configuration line, written `key=value`."""
    return fact(name, rf"(?<![\w.]){key}=\s*({value}){_END}", weight=1)


def _argument(name: str, key: str, value: str) -> Field:
    """Return a field of the arguments given, written `'key': value`, else `key=value`."""
    pattern = rf"(?:'{key}': |(?<![\w.'])(?<!_){key}=)\s*({value}){_END}"
    return fact(name, pattern, weight=0)


CONFIG: Final = (
    _key("dtype", "dtype", r"torch\.\w+|\w+"),
    _key("context_tokens", "max_seq_len", r"\d+"),
    _key("tensor_parallel", "tensor_parallel_size", r"\d+"),
    _key("pipeline_parallel", "pipeline_parallel_size", r"\d+"),
    _key("data_parallel", "data_parallel_size", r"\d+"),
    fact("weights", rf"(?<![\w.])quantization=\s*([\w-]+){_END}", weight=1, convert=quantized),
    _key("enforce_eager", "enforce_eager", "True|False"),
    _key("kv_dtype", "kv_cache_dtype", r"[\w.]+"),
    fact("device", r"device_config=\s*(?:torch\.device\()?'?([a-z]+)(?=[,)'\s]|$)", weight=1),
    _key("server_seed", "seed", r"\d+"),
    _key("prefix_cache", "enable_prefix_caching", "True|False"),
    _key("chunked_prefill", "(?:chunked_prefill_enabled|enable_chunked_prefill)", "True|False"),
)

ARGUMENTS: Final = (
    _argument("max_running", "max_num_seqs", r"\d+"),
    _argument("context_tokens", "max_model_len", r"\d+"),
    _argument("chunk_tokens", "max_num_batched_tokens", r"\d+"),
    _argument("tensor_parallel", "tensor_parallel_size", r"\d+"),
    _argument("pipeline_parallel", "pipeline_parallel_size", r"\d+"),
    _argument("data_parallel", "data_parallel_size", r"\d+"),
    _argument("memory_fraction", "gpu_memory_utilization", r"[\d.]+"),
    _argument("prefix_cache", "enable_prefix_caching", "True|False"),
    _argument("chunked_prefill", "enable_chunked_prefill", "True|False"),
    _argument("enforce_eager", "enforce_eager", "True|False"),
    _argument("block_tokens", "block_size", r"\d+"),
    _argument("port", "port", r"\d+"),
)

MEMORY: Final = (
    fact("weights_bytes", r"(?:model weights take\s+|usage(?: is|:)? )([\d.]+) ?GiB", weight=1),
    fact("non_torch_bytes", r"non_torch_memory(?: takes)?\s+([\d.]+) ?GiB"),
    fact("non_torch_bytes", r"([\d.]+) GiB for non-torch"),
    fact("activation_bytes", r"activation peak memory(?: takes)?\s+([\d.]+) ?GiB"),
    fact("activation_bytes", r"([\d.]+) GiB for peak activation"),
    fact("kv_bytes", r"memory reserved for KV Cache is (-?[\d.]+) ?GiB"),
    fact("graph_bytes", r"([\d.]+) GiB for (?:CUDAGraph|CUDA graph|NPU graph) memory"),
    fact("device_free_bytes", r"Free memory on device[^(]*\(([\d.]+)/[\d.]+ GiB\)"),
    fact("device_total_bytes", r"Free memory on device[^(]*\([\d.]+/([\d.]+) GiB\)"),
    fact("memory_fraction", r"[Dd]esired (?:GPU|CPU) memory utilization (?:is )?\(([\d.]+),"),
    fact(
        "requested_bytes",
        r"[Dd]esired (?:GPU|CPU) memory utilization (?:is )?\([\d.]+, ([\d.]+) GiB",
    ),
    fact("device", r"for (NPU) graph memory", convert=str.lower),
    fact("device_free_bytes", r"Available memory on node \d+ \(([\d.]+)/[\d.]+ GiB\)"),
    fact("device_total_bytes", r"Available memory on node \d+ \([\d.]+/([\d.]+) GiB\)"),
    fact("device", r"Available memory on node .* desired (CPU) memory", convert=str.lower),
)
