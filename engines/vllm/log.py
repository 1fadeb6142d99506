"""vLLM's log: what it states, release by release (0.6.6 to 0.33.0 and a little before)."""

from __future__ import annotations

from typing import Final

from engines.grammar import INT, NUM, Grammar, Rule, fact, one
from engines.vllm.configuration import ARGUMENTS, CONFIG, MEMORY
from engines.vllm.deaths import DEATHS, TAILS
from engines.vllm.settle import settle

_COMPILED: Final = r"(?:takes|took) "


RULES: Final = (
    Rule(
        "SIMULATED ENGINE",
        (fact("simulated", r"SIMULATED ENGINE: this is not (vllm|vLLM)\b", convert=bool),),
        shared=True,
    ),
    Rule(
        "API server version ",
        (fact("version", r"API server version ([\w.+]+)(?=[,\s]|$)", weight=3, convert=str),),
    ),
    Rule(
        "vLLM server version ",
        (fact("version", r"server version ([\w.+]+)(?=[,\s]|$)", weight=3, convert=str),),
    ),
    Rule("█  version ", (fact("version", r"█\s+version ([\w.+]+)\s*$", weight=3, convert=str),)),
    Rule(
        " LLM engine (v",
        (fact("version", r" LLM engine \(v([\w.+]+)\)", weight=3, convert=str), *CONFIG),
        needs="chunked_prefill",
        lines=64,
    ),
    Rule("LLM engine with config: ", CONFIG, needs="chunked_prefill", lines=64),
    Rule("non-default args: ", ARGUMENTS, ends="}", lines=16),
    Rule("args: Namespace(", ARGUMENTS, ends=")", lines=16),
    Rule("data_parallel_size=", (fact("data_parallel", r"^\s*data_parallel_size=(\d+)\s*$"),)),
    # capacity
    one(" KV cache size: ", "engine_kv_tokens", INT + " tokens"),
    Rule(
        "Maximum concurrency for ",
        (
            fact("context_tokens", rf"Maximum concurrency for {INT} tokens per request", weight=4),
            fact("max_concurrency", rf"tokens per request: {NUM}x"),
        ),
        needs="max_concurrency",
    ),
    Rule(
        " blocks: ",
        (
            fact("kv_blocks", rf"# (?!CPU blocks)\w+ blocks: {INT}"),
            fact("swap_blocks", rf"# CPU blocks: {INT}"),
        ),
    ),
    one("after num_gpu_blocks is: ", "kv_blocks", INT),
    Rule(
        "Overriding num_gpu_blocks=",
        (
            fact("profiled_blocks", r"Overriding num_gpu_blocks=(\d+) with"),
            fact("override_blocks", rf"with num_gpu_blocks_override={INT}"),
        ),
        needs="override_blocks",
    ),
    one("Available KV cache memory: ", "kv_bytes", NUM + " GiB"),
    Rule(
        "Initial free memory ",
        (
            fact("device_free_bytes", rf"Initial free memory {NUM} GiB"),
            fact("kv_bytes", rf"reserved {NUM} GiB memory for KV Cache as specified"),
        ),
    ),
    Rule(
        "GiB for KV cache on node ",
        (fact("kv_bytes", rf"(?:Explicitly|Auto) set \({NUM}/[\d.]+\) GiB for KV cache"),),
        needs="kv_bytes",
        states={"device": "cpu"},
    ),
    one("Setting attention block size to ", "attention_block_tokens", INT + " tokens"),
    # limits
    one("Chunked prefill is enabled with max_num_batched_tokens=", "chunk_tokens", INT),
    one("Setting max_num_batched_tokens to ", "chunk_tokens", INT + " for"),
    Rule(
        "Raising max_num_batched_tokens from ",
        (fact("chunk_tokens", rf"Raising max_num_batched_tokens from \d+ to {INT}", weight=3),),
    ),
    one("Using max model len ", "context_tokens", INT),
    Rule(
        "Auto-fit max_model_len: reduced from ",
        (fact("context_tokens", rf"reduced from \d+ to {INT}", weight=5),),
        needs="context_tokens",
    ),
    Rule(
        "prefix caching by default",
        (
            fact(
                "prefix_cache",
                r"(Enabling|Disabling) prefix caching by default",
                weight=0,
                convert=lambda word: word == "Enabling",
            ),
        ),
    ),
    Rule(
        "The current --gpu-memory-utilization=",
        (fact("memory_fraction", rf"The current --gpu-memory-utilization={NUM} is"),),
    ),
    # weights and memory
    Rule(
        "odel loading took ",
        (
            fact("weights_bytes", rf"odel loading took {NUM} Gi?B"),
            fact("load_s", rf"Gi?B (?:memory )?and {NUM} s", weight=2),
        ),
    ),
    Rule(
        "Loading model weights took ",
        (fact("weights_bytes", rf"Loading model weights took {NUM} GB"),),
        needs="weights_bytes",
    ),
    Rule(
        "Loading weights took ",
        (fact("weights_load_s", rf"Loading weights took {NUM} s"),),
        needs="weights_load_s",
        shared=True,
    ),
    one("Initializing model took ", "model_init_s", NUM + " s"),
    Rule("odel weights take", MEMORY),
    Rule("non_torch_memory", MEMORY),
    Rule("activation peak memory", MEMORY),
    Rule("Free memory on device", MEMORY, needs="requested_bytes"),
    Rule("Available memory on node ", MEMORY),
    Rule(
        "total_gpu_memory",
        (
            fact("device_total_bytes", r"total_gpu_memory\s+\(?([\d.]+) ?GiB"),
            fact("memory_fraction", r"gpu_memory_utilization\s+\(([\d.]+)\)"),
        ),
    ),
    Rule(
        "available_kv_cache_memory",
        (fact("kv_bytes", r"available_kv_cache_memory\s+(-?[\d.]+) ?GiB"),),
    ),
    Rule(
        "gpu_memory_utilization\t",
        (fact("memory_fraction", r"gpu_memory_utilization\t([\d.]+)\s*$"),),
    ),
    one("Memory profiling takes ", "profile_s", NUM + " seconds"),
    # compilation, graphs, initialization
    Rule("torch.compile ", (fact("compile_s", rf"torch\.compile {_COMPILED}{NUM} s in total"),)),
    Rule("(compilation: ", (fact("compile_s", rf"\(compilation: {NUM} s"),)),
    one("Dynamo bytecode transform time: ", "dynamo_s", NUM + " s"),
    Rule(
        "Compiling a graph for ",
        (
            fact("general_compile_s", rf"graph for general shape {_COMPILED}{NUM} s"),
            fact(
                "range_compile_s",
                rf"graph for (?:dynamic shape|compile range \([^)]*\)) {_COMPILED}{NUM} s",
            ),
        ),
    ),
    one("Initial profiling/warmup run took ", "warmup_s", NUM + " s"),
    Rule(
        "Graph capturing finished in ",
        (
            fact("graph_capture_s", rf"Graph capturing finished in {NUM} secs"),
            fact("graph_bytes", rf"secs, took {NUM} GiB"),
        ),
    ),
    one("Estimated CUDA graph memory: ", "graph_estimate_bytes", NUM + " GiB"),
    one("init engine (profile, create kv cache, warmup model) took ", "engine_init_s", NUM + " s"),
    # attention
    Rule(
        "backend out of potential backends",
        (
            fact(
                "attention_backend",
                r"Using (?:AttentionBackendEnum\.)?(\w+) (?:attention )?backend out of potential",
            ),
        ),
    ),
    Rule(
        " backend",
        (
            fact(
                "attention_backend",
                r"^\s*Using (?:AttentionBackendEnum\.)?"
                r"(?!.*(?:prefill|ViT|vit|sampl|[Aa]ll-?[Rr]educe|MoE))"
                r"(\w+(?: [A-Z]\w*)*) backend"
                r"(?: on V1 engine| \(selected via --attention-backend\))?\.\s*$",
                weight=1,
            ),
        ),
    ),
    # the port
    Rule("Starting vLLM ", (fact("port", r"Starting vLLM .*on https?://\S*:(\d+)(?=\s|$)"),)),
    # what its errors state
    Rule(
        "To serve at least one request with the model",
        (
            fact("context_tokens", rf"max seq len\s*\({INT}\)", weight=1),
            fact("kv_needed_bytes", rf"\), \(?{NUM} Gi?B KV cache is needed"),
            fact("kv_bytes", rf"available\s+KV\s+cache\s+memory\s*\({NUM} Gi?B\)", weight=1),
            fact("estimated_context_tokens", rf"stimated maximum model length is {INT}"),
        ),
        needs="estimated_context_tokens",
    ),
    Rule(
        "The model's max seq len (",
        (
            fact("context_tokens", rf"max seq len \({INT}\)", weight=1),
            fact("engine_kv_tokens", rf"can be stored in KV cache \({INT}\)", weight=1),
        ),
        needs="engine_kv_tokens",
    ),
    Rule(
        "exceeds available Mamba cache blocks",
        (
            fact("max_running", rf"max_num_seqs \({INT}\) exceeds"),
            fact("mamba_blocks", rf"available Mamba cache blocks \({INT}\)"),
        ),
    ),
    Rule(
        "User-specified max_model_len (",
        (
            fact("context_tokens", rf"User-specified max_model_len \({INT}\)", weight=1),
            fact("derived_context_tokens", r"the derived max_model_len \((?:\w+=)?(\d+)"),
        ),
        needs="derived_context_tokens",
    ),
    Rule(
        "max_num_batched_tokens (",
        (
            fact("chunk_tokens", rf"max_num_batched_tokens \({INT}\) is smaller", weight=1),
            fact("context_tokens", rf"than max_model_len \({INT}\)", weight=1),
        ),
    ),
)

GRAMMAR: Final = Grammar(
    engine="vllm",
    signs=(
        "/vllm/",
        "vLLM",
        "vllm serve",
        "vllm: error",
        "EngineCore",
        "(APIServer",
        "vllm_process_name",
        "VllmWorker",
        "gpu_memory_utilization",
        "max_num_seqs",
        "desired GPU memory utilization",
        "max_model_len",
    ),
    rules=RULES,
    deaths=DEATHS,
    tails=TAILS,
    ready=("Application startup complete",),
    captures=(
        ("Capturing cudagraphs for decoding", "Capturing CUDA graph"),
        "Graph capturing finished",
    ),
    stops=("trigger received signal=", "Received SIGTERM", "Received SIGINT"),
    noise=(b" generation throughput: ",),
    quotes=(b"] Received request ", b"] Added request "),
    settle=settle,
)
