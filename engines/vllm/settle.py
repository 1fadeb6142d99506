"""The facts of a vLLM server out of all that its ranks stated."""

from __future__ import annotations

from engines.choosing import best_first, summed, without_single
from engines.grammar import Found


def settle(found: list[Found]) -> list[Found]:
    """Return the facts, the server's own first: the capacity is summed over its engines.

    Each data-parallel engine states its own capacity; a line printed again states nothing new.
    """
    found = [*found, *summed(found, "engine_kv_tokens", "kv_tokens")]
    return best_first(without_single(found))
