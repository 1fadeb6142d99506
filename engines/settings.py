"""The catalogue of engine-neutral settings: what an experiment may ask of any engine.

A setting lives three lives: *requested* (the experiment file), *resolved* (the flags sent) and
*observed* (the facts the server states). The fact that shows a setting bears the setting's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["tokens", "count", "switch", "word", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One intent that engines spell differently."""

    name: str
    kind: Kind
    meaning: str


def _catalogue(*settings: Setting) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


CATALOGUE: Final = _catalogue(
    Setting(
        name="chunk_tokens",
        kind="tokens",
        meaning="largest share of a prompt that one step prefills (vLLM counts decodes in it too)",
    ),
    Setting(
        name="mixed_chunk",
        kind="switch",
        meaning="prefill chunks and decodes share a step",
    ),
    Setting(
        name="memory",
        kind="memory",
        meaning="what the KV cache gets: {fraction}, {kv_tokens} or {kv_bytes}",
    ),
    Setting(name="prefix_cache", kind="switch", meaning="KV of equal prefixes is reused"),
    Setting(
        name="weights",
        kind="word",
        meaning="as_stored, or a quantization applied while loading (fp8, ...)",
    ),
    Setting(
        name="dtype", kind="word", meaning="dtype of activations: auto, bfloat16, float16, ..."
    ),
    Setting(
        name="kv_dtype", kind="word", meaning="dtype of the KV cache: auto, bfloat16, fp8, ..."
    ),
    Setting(name="max_running", kind="count", meaning="most requests that decode at once"),
    Setting(name="context_tokens", kind="tokens", meaning="longest input plus output of a request"),
    Setting(name="tensor_parallel", kind="count", meaning="GPUs that split each layer"),
    Setting(name="pipeline_parallel", kind="count", meaning="GPUs that split the layers"),
    Setting(name="data_parallel", kind="count", meaning="copies of the model behind one port"),
    Setting(name="block_tokens", kind="tokens", meaning="tokens of a KV block (vLLM) or page"),
    Setting(name="graphs", kind="switch", meaning="CUDA graphs and compilation are used"),
    Setting(
        name="attention_backend", kind="word", meaning="attention kernels, in the engine's words"
    ),
    Setting(name="server_seed", kind="count", meaning="the server's own random seed"),
)
