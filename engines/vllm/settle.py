"""The facts of a vLLM server out of all that its ranks stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engines.choosing import best_first, summed, without_single
from engines.grammar import Found

OVERRIDE = ("profiled_blocks", "override_blocks")


def settle(found: list[Found]) -> list[Found]:
    """Return the facts, the server's own first: the capacity is summed over its engines.

    Each data-parallel engine states its own capacity; a line printed again states nothing new.
    """
    found = list(_used(found))
    found += summed(found, "engine_kv_tokens", "kv_tokens")
    return best_first(without_single(found))


def _used(found: list[Found]) -> Iterator[Found]:
    """Yield statements with the memory used told from the memory that was available.

    Where the number of blocks is overridden, the memory that the log states is only what there
    was: blocks are of one size, so their share of it is used.
    """
    blocks = {each.fact.name: int(each.fact.value) for each in found if each.fact.name in OVERRIDE}
    profiled, override = (blocks.get(name, 0) for name in OVERRIDE)
    for each in found:
        if each.fact.name in OVERRIDE:
            continue
        if each.fact.name == "kv_bytes" and profiled > 0 and override > 0:
            yield replace(each, fact=replace(each.fact, name="kv_available_bytes"))
            size = round(int(each.fact.value) * override / profiled)
            yield replace(each, fact=replace(each.fact, value=size))
        else:
            yield each
