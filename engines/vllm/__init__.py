"""vLLM's OpenAI server, releases 0.6.6 to 0.33.0."""

from __future__ import annotations

from typing import Final

from engines import Engine
from engines.chat import chat_body
from engines.images import version_of_image
from engines.vllm.completion import completion
from engines.vllm.flags import arguments
from engines.vllm.pages import FLUSH, PROBES, counters, metrics_facts

ENGINE: Final = Engine(
    name="vllm",
    port=8000,
    image_program=(),
    # `vllm serve` treats --model as an error up to 0.11.0; the module takes it in every release
    local_program=("python3", "-m", "vllm.entrypoints.openai.api_server"),
    known=((0, 6, 6), (0, 33, 0)),
    arguments=arguments,
    completion=completion,
    chat=chat_body,
    token_ids={"return_token_ids": True},
    probes=PROBES,
    metrics_facts=metrics_facts,
    counters=counters,
    flush=FLUSH,
    expected=("version", "kv_tokens", "context_tokens", "chunk_tokens", "max_running"),
    chunk_counts="prefill and decodes",
    version_of_image=version_of_image,
)
