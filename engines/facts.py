"""The catalogue of facts: every name a server's statement may be stored under, with its unit.

A fact that shows a setting bears the setting's name. Sizes are bytes, times seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Name, unit and meaning of one kind of fact."""

    name: str
    unit: str
    meaning: str


def _catalogue(*rows: tuple[str, str, str]) -> dict[str, Entry]:
    return {name: Entry(name=name, unit=unit, meaning=meaning) for name, unit, meaning in rows}


CATALOGUE: Final = _catalogue(
    ("version", "", "the server's release"),
    ("simulated", "", "the server is this project's simulated engine"),
    ("ready", "", "the server said that it is ready"),
    ("stopped", "", "`clean` when it was asked to stop and did"),
    ("device", "", "what it computes on: cuda, cpu, ..."),
    ("port", "", "the port it listens on"),
    # capacity
    ("kv_tokens", "tokens", "tokens that the KV cache holds, over all data-parallel ranks"),
    ("engine_kv_tokens", "tokens", "tokens that the KV cache of one data-parallel rank holds"),
    ("kv_blocks", "blocks", "KV blocks of one engine"),
    ("swap_blocks", "blocks", "KV blocks in host memory; on a CPU backend the capacity itself"),
    ("block_tokens", "tokens", "tokens of a KV block or page"),
    ("attention_block_tokens", "tokens", "tokens of an attention block made to fit Mamba's pages"),
    ("max_concurrency", "requests", "requests of full length that the KV cache holds"),
    ("kv_bytes", "bytes", "memory of the KV cache of one worker"),
    ("kv_k_bytes", "bytes", "memory of its keys"),
    ("kv_v_bytes", "bytes", "memory of its values"),
    ("kv_available_bytes", "bytes", "memory found for the KV cache before it was sized"),
    ("full_tokens", "tokens", "tokens of the full-attention pool of a sliding-window model"),
    ("swa_tokens", "tokens", "tokens of the sliding-window pool"),
    ("swa_bytes", "bytes", "memory of the sliding-window pool"),
    ("swa_k_bytes", "bytes", "memory of its keys"),
    ("swa_v_bytes", "bytes", "memory of its values"),
    ("draft_kv_tokens", "tokens", "tokens of the draft model's KV cache"),
    ("draft_kv_bytes", "bytes", "memory of the draft model's KV cache"),
    ("draft_k_bytes", "bytes", "memory of its keys"),
    ("draft_v_bytes", "bytes", "memory of its values"),
    ("profiled_tokens", "tokens", "tokens that memory allows, where more were asked"),
    ("mamba_slots", "slots", "requests whose Mamba state fits"),
    ("mamba_blocks", "blocks", "blocks of Mamba state"),
    ("mamba_conv_bytes", "bytes", "memory of the convolution states"),
    ("mamba_ssm_bytes", "bytes", "memory of the state-space states"),
    ("mamba_draft_ssm_bytes", "bytes", "memory of the states kept while drafts are verified"),
    ("mamba_draft_conv_bytes", "bytes", "memory of the windows kept while drafts are verified"),
    ("hicache_bytes", "bytes", "host memory of the hierarchical cache, one rank"),
    ("hicache_indexer_bytes", "bytes", "host memory of its sparse-attention indexer, one rank"),
    ("hicache_mamba_bytes", "bytes", "host memory of its Mamba states, one rank"),
    ("hicache_tokens", "tokens", "tokens that the hierarchical cache holds in host memory"),
    ("hicache_requested_bytes", "bytes", "host memory that the hierarchical cache asked for"),
    ("host_free_bytes", "bytes", "host memory that was free then"),
    # limits and choices
    ("chunk_tokens", "tokens", "largest prefill chunk of one step"),
    ("chunked_prefill", "", "long prompts are prefilled in chunks"),
    ("max_prefill_tokens", "tokens", "most prompt tokens taken in at once"),
    ("max_running", "requests", "most requests that run at once"),
    ("context_tokens", "tokens", "longest input plus output of a request"),
    ("derived_context_tokens", "tokens", "longest context the model's own configuration allows"),
    ("estimated_context_tokens", "tokens", "longest context that the KV memory would allow"),
    ("prefix_cache", "", "KV of equal prefixes is reused"),
    ("mixed_chunk", "", "prefill chunks and decodes share a step"),
    ("dtype", "", "dtype of activations"),
    ("kv_dtype", "", "dtype of the KV cache"),
    ("weights", "", "quantization of the weights, `as_stored` where none is applied to them"),
    ("attention_backend", "", "attention kernels"),
    ("memory_fraction", "ratio", "share of memory the server was given"),
    ("tensor_parallel", "", "GPUs that split each layer"),
    ("pipeline_parallel", "", "GPUs that split the layers"),
    ("data_parallel", "", "copies of the model behind one port"),
    ("server_seed", "", "the server's own random seed"),
    ("enforce_eager", "", "no CUDA graphs, and in vLLM no compilation"),
    # memory
    ("weights_bytes", "bytes", "memory of the weights of one worker"),
    ("draft_weights_bytes", "bytes", "memory of the draft model's weights of one worker"),
    ("activation_bytes", "bytes", "peak memory of activations while profiling"),
    ("non_torch_bytes", "bytes", "memory outside the framework"),
    ("graph_bytes", "bytes", "memory of CUDA graphs"),
    ("graph_estimate_bytes", "bytes", "memory reserved for CUDA graphs before they are captured"),
    ("device_total_bytes", "bytes", "memory of the device"),
    ("device_free_bytes", "bytes", "memory that was free when the server started"),
    ("requested_bytes", "bytes", "memory the server wanted of the device"),
    ("kv_needed_bytes", "bytes", "KV memory that one request of full length needs"),
    ("free_before_load_bytes", "bytes", "free memory before the weights are loaded"),
    ("free_after_load_bytes", "bytes", "free memory after the weights are loaded"),
    ("free_after_kv_bytes", "bytes", "free memory after the KV cache is made"),
    ("free_before_capture_bytes", "bytes", "free memory before CUDA graphs are captured"),
    ("free_after_capture_bytes", "bytes", "free memory after CUDA graphs are captured"),
    ("free_at_ready_bytes", "bytes", "free device memory when the server is set up"),
    ("host_free_at_ready_bytes", "bytes", "free host memory when a CPU server is set up"),
    ("free_in_service_bytes", "bytes", "free memory when a kernel was loaded while serving"),
    # times
    ("dist_init_s", "s", "setting up the process group"),
    ("load_s", "s", "loading the model, slowest rank"),
    ("weights_load_s", "s", "reading the weights"),
    ("model_init_s", "s", "building the model before its weights"),
    ("compile_s", "s", "compiling the model, in total"),
    ("dynamo_s", "s", "bytecode transformation within it"),
    ("general_compile_s", "s", "compiling the graph for a general shape within it"),
    ("range_compile_s", "s", "compiling the graph for a range or dynamic shape within it"),
    ("profile_s", "s", "profiling memory"),
    ("warmup_s", "s", "first profiling or warm-up run"),
    ("graph_capture_s", "s", "capturing CUDA graphs"),
    ("engine_init_s", "s", "profiling, making the KV cache and warming up"),
    # seen while serving
    ("largest_prefill_tokens", "tokens", "largest prefill of one step seen"),
    ("step_over_tokens", "tokens", "the largest step seen had more tokens than this"),
    ("step_at_most_tokens", "tokens", "the largest step seen had at most this many tokens"),
)

AS_STORED: Final = "as_stored"
"""The word for weights that are used as they are, in settings and facts."""

COUNTERS: Final = {
    "prefix_query_tokens": "prompt tokens looked up in the prefix cache, running total",
    "prefix_hit_tokens": "prompt tokens found in the prefix cache, running total",
    "prompt_tokens": "prompt tokens taken in, running total",
    "output_tokens": "tokens generated, running total",
    "preemptions": "running requests put back for want of KV memory, running total",
    "running": "requests running now",
    "waiting": "requests waiting now",
    "kv_used_ratio": "share of the KV cache in use now",
    "draft_tokens": "tokens drafted by speculation, running total",
    "accepted_tokens": "drafted tokens that were accepted, running total",
    "accepted_ratio": "share of drafted tokens accepted lately",
}
"""What `Engine.counters` may return; running totals are compared before and after a load."""
