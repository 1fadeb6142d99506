"""SGLang's log: what it states, release by release (0.3.6 to 0.5.23 and a little before)."""

from __future__ import annotations

from typing import Final

from engines.grammar import (
    GB,
    INT,
    NUM,
    Field,
    Grammar,
    Rule,
    fact,
    named,
    negated,
    one,
    positive,
    quantized,
)
from engines.sglang.deaths import DEATHS, TAILS
from engines.sglang.settle import settle

_END: Final = r"(?=[,)\s\]}]|$)"
_WORD: Final = r"'[^']*'|[\w.-]+"

AVAILABLE: Final = rf"avail mem={NUM} ?GB"


def _argument(name: str, key: str, value: str, convert: object = None) -> Field:
    """Return a field of `server_args=`, written `key=value` or, from 0.5.19 on, `'key': value`."""
    turns = {"named": named, "negated": negated, "positive": positive, "quantized": quantized}
    turn = turns.get(str(convert))
    pattern = rf"(?:'{key}':|(?<![\w.'])(?<!_){key}=)\s*({value}){_END}"
    return fact(name, pattern, weight=0, convert=turn)


SUMMARY: Final = (
    fact("engine_kv_tokens", rf"(?<!-> )max_total_num_tokens={INT}", weight=6),
    fact("chunk_tokens", r"chunked_prefill_size=(-?\d+|None)" + _END, convert=positive),
    fact("max_prefill_tokens", rf"max_prefill_tokens={INT}"),
    fact("max_running", rf"max_running_requests={INT}"),
    fact("context_tokens", rf"context_len={INT}"),
    fact("free_at_ready_bytes", rf"available_gpu_mem={NUM} GB"),
    fact("host_free_at_ready_bytes", rf"available_cpu_mem={NUM} GB"),
)

POOL: Final = (
    fact("pool_tokens", rf"#tokens: {INT}"),
    fact("pool_k_bytes", rf"K size: {NUM} GB"),
    fact("pool_v_bytes", rf"(?<!K)V size: {NUM} GB"),
    fact("pool_kv_bytes", rf"KV size: {NUM} GB"),
    fact("pool_dtype", r"dtype: ([\w.]+),"),
    fact("pool_label", r"(SWA |MiniMax |Full |draft )?KV [Cc]ache (?:is )?allocated"),
)

CAPTURED: Final = (
    fact("graph_capture_s", rf"graph end\..*?elapsed[=:] ?{NUM} ?s"),
    fact("graph_bytes", rf"graph end\..*?mem usage={NUM} ?GB"),
    fact("free_after_capture_bytes", rf"graph end\..*?{AVAILABLE}"),
)

HICACHE: Final = (
    fact("hicache_indexer_bytes", rf"{NUM} GB host memory for (?:DSA|NSA) indexer", scale=GB),
    fact("hicache_mamba_bytes", rf"{NUM} GB host memory for hierarchical Mamba", scale=GB),
    fact("hicache_bytes", rf"{NUM} GB host memory for hierarchical KV", scale=GB),
    fact(
        "hicache_bytes", rf"hierarchical KV host pool: \d+ tokens, {NUM} GB host memory", scale=GB
    ),
    fact("hicache_tokens", rf"hierarchical KV host pool: {INT} tokens"),
)

FRACTION: Final = (
    fact(
        "memory_fraction",
        r"Current value: (?:self\.server_args\.)?mem_fraction_static=([\d.]+)\s*$",
    ),
    fact("memory_fraction", rf"under\s+--mem-fraction-static={NUM}\.(?=\s|$)"),
)

RULES: Final = (
    Rule(
        "SIMULATED ENGINE",
        (fact("simulated", r"SIMULATED ENGINE: this is not (sglang|SGLang)\b", convert=bool),),
        shared=True,
    ),
    Rule("max_total_num_tokens=", SUMMARY, needs="context_tokens"),
    Rule("KV Cache is allocated", POOL, needs="pool_tokens"),
    Rule("KV cache allocated. dtype:", POOL, needs="pool_tokens"),
    Rule(
        "sliding window memory pool",
        (
            fact("full_tokens", rf"full_layer_tokens={INT}"),
            fact("swa_tokens", rf"swa_layer_tokens={INT}"),
        ),
        needs="swa_tokens",
    ),
    Rule(
        "Post-capture KV sizing: full_layer_tokens=",
        (
            fact("full_tokens", rf"full_layer_tokens={INT}", weight=3),
            fact("swa_tokens", rf"swa_layer_tokens={INT}", weight=3, convert=positive),
        ),
    ),
    Rule(
        "SWAKVPool mem usage: ",
        (fact("swa_bytes", rf"SWAKVPool mem usage: {NUM} GB"),),
    ),
    Rule(
        "Mamba Cache is allocated",
        (
            fact("mamba_slots", rf"max_mamba_cache_size: {INT}"),
            fact("mamba_conv_bytes", rf"conv_state size: {NUM} ?GB"),
            fact("mamba_ssm_bytes", rf"(?<!_)ssm_state size: {NUM} ?GB"),
            fact("mamba_draft_ssm_bytes", rf"intermediate_ssm_state_cache size: {NUM} ?GB"),
            fact("mamba_draft_conv_bytes", rf"intermediate_conv_window_cache size: {NUM} ?GB"),
        ),
        needs="mamba_ssm_bytes",
    ),
    Rule(
        "DSV4 memory calculation",
        (
            fact("kv_available_bytes", rf"available_bytes={NUM} GB"),
            fact("engine_kv_tokens", rf"full_token={INT}", weight=1),
        ),
        needs="engine_kv_tokens",
    ),
    Rule(
        "KV pool sizing: ",
        (fact("kv_available_bytes", r"available_bytes=\d+ \(([\d.]+) GiB\)"),),
    ),
    Rule(
        "is larger than the profiled value",
        (fact("profiled_tokens", rf"larger than the profiled value {INT}"),),
        needs="profiled_tokens",
    ),
    Rule(" GB host memory", HICACHE),
    Rule(
        "Not enough host memory",
        (
            fact("hicache_requested_bytes", rf"Requesting\s+{NUM} GB", scale=GB),
            fact("host_free_bytes", rf"only\s+have\s+{NUM} GB free", scale=GB),
        ),
        needs="host_free_bytes",
    ),
    # weights, memory, graphs
    Rule(
        "Init torch distributed ends.",
        (fact("dist_init_s", rf"distributed ends\. elapsed={NUM} ?s"),),
    ),
    one("Init parallel ends. ", "dist_init_s", rf"elapsed={NUM} ?s"),
    one("Load weight begin. ", "free_before_load_bytes", AVAILABLE),
    Rule(
        "Load weight end.",
        (
            fact("load_s", rf"elapsed={NUM} ?s"),
            fact("dtype", r"(?<![\w])dtype=([\w.]+)" + _END),
            fact("weights", r"(?<![\w])quant=([\w.-]+)" + _END),
            fact("free_after_load_bytes", AVAILABLE),
            fact("weights_bytes", rf"mem usage={NUM} ?GB"),
        ),
        needs="free_after_load_bytes",
    ),
    Rule(
        "Loading weights took ",
        (fact("weights_load_s", rf"Loading weights took {NUM} s"),),
        needs="weights_load_s",
        shared=True,
    ),
    one("Memory pool end. ", "free_after_kv_bytes", AVAILABLE),
    Rule(
        " graph begin.",
        (fact("free_before_capture_bytes", rf"cuda graph begin\..*{AVAILABLE}"),),
    ),
    Rule("Capture cuda graph end.", CAPTURED, needs="graph_capture_s"),
    Rule("Capture target decode ", CAPTURED, needs="graph_capture_s", lines=1),
    Rule("Capture target verify ", CAPTURED, needs="graph_capture_s", lines=1),
    one("Using KV cache dtype: ", "kv_dtype", r"([\w.]+)(?=\s|$)"),
    # choices
    Rule(
        " backend by default",
        (fact("attention_backend", r"Use (\S+) backend by default"),),
    ),
    Rule(
        "will fallback to ",
        (fact("attention_backend", r"will fallback to (\w+) backend\.", weight=3),),
    ),
    Rule(
        " attention backend for ",
        (fact("attention_backend", r"\bUse (\S+) attention backend for "),),
    ),
    # 0.5.23 makes its unified cache also where the prefix cache is off: only server_args tell then
    Rule(
        "Tree cache initialized: ",
        (
            fact(
                "prefix_cache",
                r"impl=(?!Unified)(\w+)" + _END,
                weight=3,
                convert=lambda impl: impl != "ChunkCache",
            ),
        ),
    ),
    Rule(
        "The chunked prefill size is adjusted to ",
        (fact("chunk_tokens", rf"chunked prefill size is adjusted to {INT}", weight=1),),
    ),
    Rule(
        "server_args=",
        (
            _argument("tensor_parallel", "tp_size", r"\d+"),
            _argument("pipeline_parallel", "pp_size", r"\d+"),
            _argument("data_parallel", "dp_size", r"\d+"),
            _argument("chunk_tokens", "chunked_prefill_size", r"-?\d+", "positive"),
            _argument("max_prefill_tokens", "max_prefill_tokens", r"\d+"),
            _argument("context_tokens", "context_length", r"\d+"),
            _argument("memory_fraction", "mem_fraction_static", r"[\d.]+"),
            _argument("prefix_cache", "disable_radix_cache", "True|False", "negated"),
            _argument("mixed_chunk", "enable_mixed_chunk", "True|False"),
            _argument("enforce_eager", "disable_cuda_graph", "True|False"),
            _argument("kv_dtype", "kv_cache_dtype", _WORD),
            _argument("weights", "quantization", _WORD, "quantized"),
            _argument("dtype", "dtype", _WORD, "named"),
            _argument("attention_backend", "attention_backend", _WORD, "named"),
            _argument("block_tokens", "page_size", r"\d+"),
            _argument("server_seed", "random_seed", r"\d+"),
            _argument("device", "device", _WORD, "named"),
            _argument("port", "port", r"\d+"),
        ),
        ends=")",
        lines=64,
    ),
    Rule(
        "Uvicorn running on ",
        (fact("port", r"Uvicorn running on https?://\S*?:(\d+)(?=\s|$)"),),
        shared=True,
    ),
    # what its errors and warnings state
    Rule(
        "Please try to increase --mem-fraction-static", FRACTION, needs="memory_fraction", lines=1
    ),
    Rule("Loaded weights leave no GPU memory", FRACTION, needs="memory_fraction", lines=1),
    Rule(
        "mamba/linear-attention) state cache",
        (fact("mamba_slots", rf"max_mamba_cache_size={INT}"),),
        needs="mamba_slots",
    ),
    Rule(
        "User-specified context_length (",
        (
            fact("context_tokens", rf"User-specified context_length \({INT}\)", weight=1),
            fact("derived_context_tokens", rf"the derived context_length \({INT}\)"),
        ),
        needs="derived_context_tokens",
    ),
    Rule(
        "device-loaded after serving started",
        (fact("free_in_service_bytes", rf"free device mem: {NUM} GiB"),),
    ),
)

GRAMMAR: Final = Grammar(
    engine="sglang",
    signs=(
        "sglang",
        "SGLang",
        "--mem-fraction-static",
        "hierarchical cache",
        "cuda graph",
        "KV cache pool is full",
        "#new-token",
    ),
    rules=RULES,
    deaths=DEATHS,
    tails=TAILS,
    ready=("The server is fired up and ready to roll", "device-loaded after serving started"),
    captures=((" graph begin.",), " graph end."),
    stops=("SIGTERM received. ", "Received SIGTERM"),
    noise=(b"gen throughput (token/s)",),
    quotes=(b"] Receive: ", b"] Finish: "),
    settle=settle,
)
