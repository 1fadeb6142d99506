"""What is sent because of a setting, and which facts show what became of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from engines import Engine, Served

OBSERVED: Final[dict[str, tuple[str, ...]]] = {
    "memory": ("kv_tokens", "kv_bytes", "kv_k_bytes", "kv_v_bytes", "memory_fraction"),
    "graphs": ("enforce_eager", "graph_capture_s", "graph_bytes"),
    "chunk_tokens": ("chunk_tokens", "chunked_prefill"),
}
"""Facts that show a setting which no fact is named after."""

FROM_LOAD: Final[dict[str, tuple[str, ...]]] = {
    "chunk_tokens": ("largest_prefill_tokens", "step_over_tokens", "step_at_most_tokens"),
}
"""What a load shows of a setting."""


def resolved(engine: Engine, served: Served, name: str) -> tuple[str, ...]:
    """Return the words that are sent because of one setting: flags, then `NAME=value`."""
    others = {key: value for key, value in served.settings.items() if key != name}
    sent = engine.arguments(served)
    less = engine.arguments(replace(served, settings=others))
    env = [f"{key}={value}" for key, value in sent.env.items() if less.env.get(key) != value]
    return (*_more(sent.argv, less.argv), *env)


def _more(words: tuple[str, ...], fewer: tuple[str, ...]) -> tuple[str, ...]:
    """Return what stands in one run of words and not in the other, which lacks one stretch."""
    begin = 0
    while begin < len(fewer) and words[begin] == fewer[begin]:
        begin += 1
    end = 0
    while end < len(fewer) - begin and words[-1 - end] == fewer[-1 - end]:
        end += 1
    return words[begin : len(words) - end]
