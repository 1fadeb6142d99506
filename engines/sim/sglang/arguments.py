"""SGLang's command line, as a `Setup`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.sim import flags
from engines.sim.options import Simulate
from engines.sim.profile import Profile
from engines.sim.setup import RefusalError, Setup
from engines.sim.shapes import Shape, shape_of
from engines.sim.twin import default_chunk_tokens
from engines.sim.vllm.arguments import no_such_model

VERSION = "0.5.23"
_REFUSAL = (
    "usage: launch_server.py [-h] --model-path MODEL_PATH ...\nlaunch_server.py: error: {message}"
)


def setup(argv: Sequence[str], simulate: Simulate, profile: Profile) -> tuple[Setup, Shape]:
    """Return what `sglang.launch_server` with these arguments serves, and the model's shape.

    Ends the process with code 2 at a flag SGLang does not know.

    Raises:
        RefusalError: SGLang would end with an error about the model or its length.
    """
    given = flags.read("sglang", argv, refusal=_REFUSAL)
    model = given.get("model_path")
    if model is None:
        raise RefusalError(
            _REFUSAL.format(message="the following arguments are required: --model-path"), 2
        )
    shape = shape_of(model)
    if shape is None:
        raise RefusalError(no_such_model(model))
    return _setup(model, shape, given, simulate, profile), shape


def _setup(
    model: str, shape: Shape, given: dict[str, Any], simulate: Simulate, profile: Profile
) -> Setup:
    context = given.get("context_length") or shape.context_tokens
    if context > shape.context_tokens:
        raise RefusalError(
            f"ValueError: User-specified context_length ({context}) is greater than the derived "
            f"context_length ({shape.context_tokens}). This may lead to incorrect model outputs "
            "or CUDA errors."
        )
    chunk = given.get("chunked_prefill_size")
    if chunk is None:
        chunk = default_chunk_tokens("sglang", profile.memory_bytes)
    return Setup(
        engine="sglang",
        version=simulate.version or VERSION,
        model=model,
        name=simulate.wrong_model or given.get("served_model_name") or model,
        host=given.get("host", "127.0.0.1"),
        port=given.get("port", 30_000),
        context_tokens=context,
        chunk_tokens=chunk if chunk > 0 else None,
        max_running=given.get("max_running_requests"),
        prefix_cache=not given.get("disable_radix_cache", False),
        mixed=given.get("enable_mixed_chunk", False),
        quantization=given.get("quantization"),
        dtype={"auto": "bfloat16", "half": "float16"}.get(
            given.get("dtype", "auto"), given.get("dtype", "auto")
        ),
        kv_dtype=given.get("kv_cache_dtype", "auto"),
        fraction=given.get("mem_fraction_static", 0.85),
        kv_tokens=given.get("max_total_tokens"),
        kv_bytes=None,
        block_tokens=given.get("page_size") or 1,
        gpus=given.get("tp_size", 1),
        ahead=not given.get("disable_overlap_schedule", False),
        graphs=not given.get("disable_cuda_graph", False),
        cached_details=given.get("enable_cache_report", False),
        metrics=given.get("enable_metrics", False),
        control=True,
        access_log=given.get("log_level_http", given.get("log_level", "info")) in ("info", "debug"),
        given=given,
    )
