"""vLLM's flags by release, from its argument parsers of 0.6.6 to 0.32.0."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Final

from engines import Arguments, Served
from engines.spelling import (
    Always,
    Spelling,
    always,
    count_of,
    flags_of,
    holds,
    memory_of,
    merged,
    raw_flags,
    spelled,
)

GPU_BLOCK_TOKENS: Final = 16
CPU_BLOCK_TOKENS: Final = 128
GIB: Final = 2**30

SPELLINGS: Final = (
    Spelling(setting="context_tokens", flag="--max-model-len"),
    Spelling(
        setting="chunk_tokens",
        flag="--max-num-batched-tokens",
        since=(0, 8),
        note="vLLM's chunk_tokens also counts the decodes of a step.",
    ),
    Spelling(setting="max_running", flag="--max-num-seqs"),
    Spelling(
        setting="mixed_chunk",
        values={True: ()},
        since=(0, 8),
        why="its scheduler has let prefill chunks and decodes share every step since 0.8",
    ),
    Spelling(
        setting="mixed_chunk",
        values={
            True: ("--enable-chunked-prefill",),
            False: ("--enable-chunked-prefill=False",),
        },
        before=(0, 8),
    ),
    Spelling(
        setting="prefix_cache",
        values={True: ("--enable-prefix-caching",), False: ("--no-enable-prefix-caching",)},
    ),
    Spelling(setting="dtype", flag="--dtype"),
    Spelling(setting="weights", flag="--quantization"),
    Spelling(setting="kv_dtype", flag="--kv-cache-dtype"),
    Spelling(setting="tensor_parallel", flag="--tensor-parallel-size"),
    Spelling(setting="pipeline_parallel", flag="--pipeline-parallel-size"),
    Spelling(setting="data_parallel", flag="--data-parallel-size", since=(0, 8, 5)),
    Spelling(setting="block_tokens", flag="--block-size"),
    Spelling(
        setting="graphs",
        values={True: (), False: ("--enforce-eager",)},
        note="vLLM without graphs is also without torch.compile (--enforce-eager).",
    ),
    Spelling(setting="attention_backend", env="VLLM_ATTENTION_BACKEND", before=(0, 13)),
    Spelling(setting="attention_backend", flag="--attention-backend", since=(0, 13)),
    Spelling(setting="server_seed", flag="--seed"),
)

ALWAYS: Final = (
    # cached tokens are reported per request only with this
    Always(words=("--enable-prompt-tokens-details",)),
    # a model's generation_config.json would otherwise change the work; before 0.8 it did not
    Always(words=("--generation-config", "vllm"), since=(0, 8)),
    # one line per request was on by default, and costs time inside the measured path
    Always(words=("--disable-log-requests",), before=(0, 10, 2)),
)

ENV: Final = {"VLLM_SERVER_DEV_MODE": "1", "NO_COLOR": "1", "VLLM_LOGGING_COLOR": "0"}

RUNNERS_OWN: Final = ("--model", "--served-model-name", "--host", "--port", "--revision")


def arguments(served: Served) -> Arguments:
    """Return what `vllm serve`, or an image's entrypoint, is started with.

    The model is sent as `--model`: the form that every image takes. A positional model is refused
    up to 0.9.2 and silently ignored by the images of 0.10.2 to 0.11.0.
    """
    sent = merged([_place(served), Arguments(argv=(), env=ENV), *_settings(served)])
    raw = raw_flags(
        "vllm", served.flags, (*RUNNERS_OWN, *flags_of(sent.argv)), negated=served_negates(served)
    )
    return merged([sent, always(ALWAYS, served), raw])


def served_negates(served: Served) -> bool:
    """Tell whether this release knows `--no-NAME` for every switch."""
    return holds(served.version, (0, 8, 5), None)


def _place(served: Served) -> Arguments:
    argv = ["--model", served.model, "--served-model-name", served.name]
    argv += ["--host", served.host, "--port", str(served.port)]
    if served.revision and not served.model.startswith("/"):
        argv += ["--revision", served.revision]
    return Arguments(argv=tuple(argv))


def _settings(served: Served) -> Iterator[Arguments]:
    for name, value in served.settings.items():
        if name == "memory":
            yield _memory(served, value)
        elif name == "chunk_tokens":
            yield _chunk(served, value)
        elif name == "weights" and value == "as_stored":
            yield Arguments(argv=())
        elif (
            name == "kv_dtype" and value == "bfloat16" and not holds(served.version, (0, 11), None)
        ):
            yield Arguments(argv=(), refusals=("vLLM before 0.11 takes no kv_dtype bfloat16.",))
        elif name == "block_tokens" and _tells_blocks(served):
            yield Arguments(argv=())
        else:
            yield spelled("vLLM", SPELLINGS, served.version, name, value)
    if (count_of(served.settings, "data_parallel") or 1) > 1 and "max_running" in served.settings:
        yield Arguments(argv=(), notes=("vLLM's max_running is per data-parallel rank.",))
    if served.gpus == 0 and "memory" not in served.settings:
        note = "No memory is asked: vLLM takes its default share of the host's memory on a CPU."
        yield Arguments(argv=(), notes=(note,))


def _chunk(served: Served, value: object) -> Arguments:
    running = count_of(served.settings, "max_running")
    if isinstance(value, int) and running is not None and value < running:
        said = f"vLLM's chunk_tokens ({value}) must not be under max_running ({running})."
        return Arguments(argv=(), refusals=(said,))
    if holds(served.version, (0, 8), None):
        return spelled("vLLM", SPELLINGS, served.version, "chunk_tokens", value)
    if served.settings.get("mixed_chunk") is False:
        said = "vLLM before 0.8 chunks prefills only when it mixes them with decodes."
        return Arguments(argv=(), refusals=(said,))
    mixes = () if served.settings.get("mixed_chunk") else ("--enable-chunked-prefill",)
    return Arguments(argv=(*mixes, "--max-num-batched-tokens", str(value)))


def _memory(served: Served, value: object) -> Arguments:
    tagged = memory_of(value)
    if tagged is None:
        said = "memory must be one of { fraction }, { kv_tokens } or { kv_bytes }."
        return Arguments(argv=(), refusals=(said,))
    tag, number = tagged
    if tag == "fraction":
        return _fraction(served, number)
    if tag == "kv_tokens":
        return _kv_tokens(served, int(number))
    return _kv_bytes(served, int(number))


def _fraction(served: Served, fraction: float) -> Arguments:
    if served.gpus == 0 and not holds(served.version, (0, 20), None):
        said = "vLLM before 0.20 has no memory fraction on a CPU; use { kv_bytes }."
        return Arguments(argv=(), refusals=(said,))
    whole = "the host's" if served.gpus == 0 else "the GPU's whole"
    said = (
        f"vLLM's fraction is of {whole} memory and holds weights, activations and KV; "
        "SGLang's holds weights and KV only."
    )
    return Arguments(argv=("--gpu-memory-utilization", str(fraction)), notes=(said,))


def _kv_tokens(served: Served, tokens: int) -> Arguments:
    """Return the block count; the block size is sent too, because its default is no constant."""
    block = _block_tokens(served)
    argv = ("--block-size", str(block), "--num-gpu-blocks-override", str(ceil(tokens / block)))
    # on a CPU the override decides the capacity, but some memory must still be named, or the
    # server demands its default share of the host's memory first
    env = {"VLLM_CPU_KVCACHE_SPACE": "1"} if served.gpus == 0 else {}
    return Arguments(argv=argv, env=env)


def _kv_bytes(served: Served, size_bytes: int) -> Arguments:
    whole_gib = size_bytes % GIB == 0
    flag = ("--kv-cache-memory-bytes", str(size_bytes))
    if served.gpus:
        if holds(served.version, (0, 10, 2), None):
            return Arguments(argv=flag)
        said = "vLLM before 0.10.2 cannot be given KV bytes; use { kv_tokens } or { fraction }."
        return Arguments(argv=(), refusals=(said,))
    # VLLM_CPU_KVCACHE_SPACE, where an image sets it, silently overrides the flag: both say the same
    env = {"VLLM_CPU_KVCACHE_SPACE": str(size_bytes // GIB)} if whole_gib else {}
    if holds(served.version, (0, 20), None):
        warned = "A VLLM_CPU_KVCACHE_SPACE in the image silently overrides kv_bytes that are no "
        return Arguments(
            argv=flag, env=env, notes=() if whole_gib else (f"{warned}whole number of GiB.",)
        )
    if whole_gib:
        return Arguments(argv=(), env=env)
    said = "vLLM before 0.20 takes KV memory on a CPU in whole GiB only."
    return Arguments(argv=(), refusals=(said,))


def _tells_blocks(served: Served) -> bool:
    tagged = memory_of(served.settings.get("memory"))
    return tagged is not None and tagged[0] == "kv_tokens"


def _block_tokens(served: Served) -> int:
    asked = count_of(served.settings, "block_tokens")
    return asked or (GPU_BLOCK_TOKENS if served.gpus else CPU_BLOCK_TOKENS)
