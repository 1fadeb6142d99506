"""What an engine was asked to serve, in one form for both dialects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engines import Version, version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The flags that matter here, with the engine's defaults filled in.

    Attributes:
        engine: `vllm` or `sglang`.
        version: the release it claims to be.
        model: what was asked to be served.
        name: the name it answers to.
        host: address it binds.
        port: port it binds.
        context_tokens: longest input plus output.
        chunk_tokens: vLLM's token budget, SGLang's chunk; None where prompts are never cut.
        max_running: most requests at once; None until the KV capacity decides.
        prefix_cache: KV of equal prefixes is reused.
        mixed: decodes join prefill steps.
        quantization: weights quantized while loading, None for as stored.
        dtype: activations.
        kv_dtype: KV cache.
        fraction: the memory option's fraction.
        kv_tokens: KV capacity asked in tokens.
        kv_bytes: KV memory asked in bytes.
        block_tokens: tokens of a block or page.
        gpus: GPUs that split the model.
        ahead: the next step is planned while one runs.
        graphs: compiles and captures CUDA graphs.
        cached_details: usage says how many prompt tokens came from the cache.
        metrics: `/metrics` answers.
        control: `/server_info` and the flush endpoint answer.
        access_log: each request is a log line.
        given: the flags as given.
    """

    engine: str
    version: str
    model: str
    name: str
    host: str
    port: int
    context_tokens: int
    chunk_tokens: int | None
    max_running: int | None
    prefix_cache: bool
    mixed: bool
    quantization: str | None
    dtype: str
    kv_dtype: str
    fraction: float
    kv_tokens: int | None
    kv_bytes: int | None
    block_tokens: int
    gpus: int
    ahead: bool
    graphs: bool
    cached_details: bool
    metrics: bool
    control: bool
    access_log: bool
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def release(self) -> Version:
        """The release as numbers."""
        return version_of(self.version) or ()


class RefusalError(Exception):
    """The engine would end here: `lines` in its own words, and its exit code."""

    def __init__(self, lines: str, code: int = 1) -> None:
        super().__init__(lines)
        self.lines = lines
        self.code = code
