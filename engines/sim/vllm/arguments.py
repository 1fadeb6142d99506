"""vLLM's command line, as a `Setup`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from engines import version_of
from engines.sim import flags
from engines.sim.options import Simulate
from engines.sim.profile import Profile
from engines.sim.setup import RefusalError, Setup
from engines.sim.shapes import Shape, shape_of
from engines.sim.twin import default_chunk_tokens

VERSION = "0.32.0"
_UNKNOWN = (
    "usage: vllm [-h] [-v]\n"
    "            {{chat,complete,serve,launch,bench,collect-env,run-batch}}\n"
    "            ...\nvllm: error: {message}"
)
_BAD_VALUE = "usage: vllm serve [model_tag] [options]\nvllm serve: error: {message}"


def setup(argv: Sequence[str], simulate: Simulate, profile: Profile) -> tuple[Setup, Shape]:
    """Return what `vllm serve` with these arguments serves, and the model's shape.

    Ends the process with code 2 at a flag vLLM does not know.

    Raises:
        RefusalError: vLLM would end with an error about the model or its length.
    """
    model, rest = _split_model(argv)
    if (version_of(simulate.version or VERSION) or ()) < (0, 16):
        rest = [word for word in rest if word != "--disable-log-requests"]
    unknown = any(word.startswith("-") and not _looks_known(word) for word in rest)
    given = flags.read("vllm", rest, refusal=_UNKNOWN if unknown else _BAD_VALUE)
    model = model or given.get("model", "Qwen/Qwen3-0.6B")
    shape = shape_of(model)
    if shape is None:
        raise RefusalError(no_such_model(model))
    return _setup(model, shape, given, simulate, profile), shape


def no_such_model(model: str) -> str:
    """Return what the model library says of a name it cannot find."""
    return (
        f"OSError: {model} is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a "
        "token having permission to this repo."
    )


def _split_model(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    words = [_plain(word) for word in argv]
    if words and words[0] == "serve":
        words = words[1:]
    if words and not words[0].startswith("-"):
        return words[0], words[1:]
    return None, words


def _plain(word: str) -> str:
    """Return a flag as argparse knows it: dashes for underscores, nothing after a dot."""
    if not word.startswith("--"):
        return word
    name, equals, value = word.partition("=")
    return name.replace("_", "-").partition(".")[0] + equals + value


def _looks_known(word: str) -> bool:
    name = word.lstrip("-").partition("=")[0]
    return name.removeprefix("no-") in flags.names("vllm")


def _setup(
    model: str, shape: Shape, given: dict[str, Any], simulate: Simulate, profile: Profile
) -> Setup:
    context = given.get("max_model_len", -1)
    context = shape.context_tokens if context == -1 else context
    if context > shape.context_tokens:
        raise RefusalError(_too_long(context, shape.context_tokens))
    chunked = given.get("enable_chunked_prefill", True)
    chunk = given.get("max_num_batched_tokens")
    if chunk is None:
        chunk = default_chunk_tokens("vllm", profile.memory_bytes)
        chunk = chunk if chunked else max(chunk, context)
    elif chunk < context and not chunked:
        raise RefusalError(_too_small(chunk, context))
    block = given.get("block_size", 16)
    blocks = given.get("num_gpu_blocks_override")
    return Setup(
        engine="vllm",
        version=simulate.version or VERSION,
        model=model,
        name=simulate.wrong_model or given.get("served_model_name", [model])[0],
        host=given.get("host", "0.0.0.0"),  # noqa: S104 - vLLM's default
        port=given.get("port", 8000),
        context_tokens=context,
        chunk_tokens=chunk,
        max_running=given.get("max_num_seqs", 1024 if profile.memory_bytes > 70 << 30 else 256),
        prefix_cache=given.get("enable_prefix_caching", True),
        mixed=chunked,
        quantization=given.get("quantization"),
        dtype=_dtype(given.get("dtype", "auto")),
        kv_dtype=given.get("kv_cache_dtype", "auto"),
        fraction=float(given.get("gpu_memory_utilization", 0.92)),
        kv_tokens=blocks * block if blocks else None,
        kv_bytes=given.get("kv_cache_memory_bytes"),
        block_tokens=block,
        gpus=given.get("tensor_parallel_size", 1),
        ahead=given.get("async_scheduling", True),
        graphs=not given.get("enforce_eager", False),
        cached_details=given.get("enable_prompt_tokens_details", False),
        metrics=True,
        control=os.environ.get("VLLM_SERVER_DEV_MODE") == "1",
        access_log=not given.get("disable_uvicorn_access_log", False)
        and given.get("uvicorn_log_level", "info") in ("info", "debug", "trace"),
        given=given,
    )


def _dtype(given: str) -> str:
    names = {"auto": "bfloat16", "half": "float16", "float": "float32"}
    return names.get(given, given)


def _too_long(asked: int, most: int) -> str:
    return (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        f"  Value error, User-specified max_model_len ({asked}) is greater than the derived "
        f"max_model_len (max_position_embeddings={most} or model_max_length=None in model's "
        "config.json). To allow overriding this maximum, set the env var "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
    )


def _too_small(chunk: int, context: int) -> str:
    return (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig\n"
        f"  Value error, max_num_batched_tokens ({chunk}) is smaller than max_model_len "
        f"({context}). This effectively limits the maximum sequence length to "
        "max_num_batched_tokens and makes vLLM reject longer sequences."
    )
