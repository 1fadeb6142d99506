"""SGLang's flags by release, from its argument parsers of 0.3.6 to 0.5.23."""

from __future__ import annotations

from collections.abc import Iterator
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

# "fp8" alone is refused by SGLang: it wants the format
KV_WORDS: Final[dict[object, str]] = {"fp8": "fp8_e4m3"}

SPELLINGS: Final = (
    Spelling(setting="context_tokens", flag="--context-length"),
    Spelling(
        setting="chunk_tokens",
        flag="--chunked-prefill-size",
        note="SGLang's chunk_tokens counts prefill only, and is divided by dp under DP attention.",
    ),
    Spelling(setting="max_running", flag="--max-running-requests"),
    Spelling(setting="mixed_chunk", values={True: ("--enable-mixed-chunk",), False: ()}),
    Spelling(setting="prefix_cache", values={True: (), False: ("--disable-radix-cache",)}),
    Spelling(setting="dtype", flag="--dtype"),
    Spelling(setting="weights", flag="--quantization"),
    Spelling(setting="kv_dtype", flag="--kv-cache-dtype", values=KV_WORDS, since=(0, 4, 3)),
    Spelling(
        setting="kv_dtype",
        values={
            "auto": ("--kv-cache-dtype", "auto"),
            "fp8_e5m2": ("--kv-cache-dtype", "fp8_e5m2"),
        },
        before=(0, 4, 3),
    ),
    Spelling(setting="tensor_parallel", flag="--tensor-parallel-size"),
    Spelling(setting="pipeline_parallel", flag="--pipeline-parallel-size", since=(0, 4, 7)),
    Spelling(setting="data_parallel", flag="--data-parallel-size"),
    Spelling(setting="block_tokens", flag="--page-size", since=(0, 4, 4)),
    Spelling(setting="graphs", values={True: (), False: ("--disable-cuda-graph",)}),
    Spelling(setting="attention_backend", flag="--attention-backend"),
    Spelling(setting="server_seed", flag="--random-seed"),
)

ALWAYS: Final = (
    Always(words=("--enable-cache-report",)),
    Always(words=("--enable-metrics",)),
    Always(words=("--sampling-defaults", "openai"), since=(0, 5, 4)),
)

RUNNERS_OWN: Final = ("--model-path", "--model", "--served-model-name", "--host", "--port")


def arguments(served: Served) -> Arguments:
    """Return what `python3 -m sglang.launch_server` is started with."""
    sent = merged([_place(served), *_settings(served)])
    taken = (*RUNNERS_OWN, "--revision", *flags_of(sent.argv), *_aliases(sent.argv))
    raw = raw_flags("sglang", served.flags, taken, negated=False)
    return merged([sent, always(ALWAYS, served), raw])


def _place(served: Served) -> Arguments:
    argv = ["--model-path", served.model, "--served-model-name", served.name]
    argv += ["--host", served.host, "--port", str(served.port)]
    refusals: tuple[str, ...] = ()
    if served.revision and not served.model.startswith("/"):
        argv += ["--revision", served.revision]
        if not holds(served.version, (0, 4, 3), None):
            refusals = ("SGLang before 0.4.3 cannot pin a model's revision; mount a local copy.",)
    env: dict[str, str] = {}
    if served.gpus == 0:
        argv += ["--device", "cpu"]
        env["SGLANG_USE_CPU_ENGINE"] = "1"
    return Arguments(argv=tuple(argv), env=env, refusals=refusals)


def _settings(served: Served) -> Iterator[Arguments]:
    for name, value in served.settings.items():
        if name == "memory":
            yield _memory(value)
        elif name == "weights" and value == "as_stored":
            yield Arguments(argv=())
        elif (
            name == "kv_dtype"
            and value == "bfloat16"
            and not holds(served.version, (0, 5, 4), None)
        ):
            yield Arguments(argv=(), refusals=("SGLang before 0.5.4 takes no kv_dtype bfloat16.",))
        else:
            yield spelled("SGLang", SPELLINGS, served.version, name, value)
    if (count_of(served.settings, "data_parallel") or 1) > 1 and "max_running" in served.settings:
        note = "SGLang divides max_running by the number of data-parallel ranks."
        yield Arguments(argv=(), notes=(note,))
    if served.gpus == 0 and "memory" not in served.settings:
        note = "No memory is asked: SGLang takes most of the host's free memory on a CPU."
        yield Arguments(argv=(), notes=(note,))


def _memory(value: object) -> Arguments:
    tagged = memory_of(value)
    if tagged is None:
        said = "memory must be one of { fraction }, { kv_tokens } or { kv_bytes }."
        return Arguments(argv=(), refusals=(said,))
    tag, number = tagged
    if tag == "fraction":
        said = (
            "SGLang's fraction holds weights and KV only; vLLM's also holds activations, of the "
            "GPU's whole memory."
        )
        return Arguments(argv=("--mem-fraction-static", str(number)), notes=(said,))
    if tag == "kv_tokens":
        said = "SGLang's kv_tokens is a cap: it takes fewer when memory does not allow as many."
        return Arguments(argv=("--max-total-tokens", str(int(number))), notes=(said,))
    said = "SGLang cannot be given KV bytes; use { kv_tokens } or { fraction } for it."
    return Arguments(argv=(), refusals=(said,))


def _aliases(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield the other names of flags that are sent."""
    names = {
        "--tensor-parallel-size": ("--tp-size", "--tp"),
        "--pipeline-parallel-size": ("--pp-size", "--pp"),
        "--data-parallel-size": ("--dp-size", "--dp"),
    }
    for flag in flags_of(argv):
        yield from names.get(flag, ())
