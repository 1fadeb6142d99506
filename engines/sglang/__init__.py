"""SGLang's server, releases 0.3.6 to 0.5.23."""

from __future__ import annotations

from typing import Final

from engines import Engine
from engines.chat import chat_body
from engines.images import version_of_image
from engines.sglang.completion import completion
from engines.sglang.flags import arguments
from engines.sglang.pages import FLUSH, PROBES, counters, metrics_facts

PROGRAM: Final = ("python3", "-m", "sglang.launch_server")

ENGINE: Final = Engine(
    name="sglang",
    port=30000,
    image_program=PROGRAM,
    local_program=PROGRAM,
    known=((0, 3, 6), (0, 5, 23)),
    arguments=arguments,
    completion=completion,
    chat=chat_body,
    token_ids={"return_token_ids": True},
    probes=PROBES,
    metrics_facts=metrics_facts,
    counters=counters,
    flush=FLUSH,
    expected=("version", "kv_tokens", "context_tokens", "chunk_tokens", "max_running"),
    chunk_counts="prefill alone",
    version_of_image=version_of_image,
)
