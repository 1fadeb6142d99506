"""Which of several statements of one fact counts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from engines import Fact
from engines.grammar import Found

SLOWEST: Final = frozenset({"load_s", "profile_s"})
"""Times that the whole server waits for: of several ranks the slowest counts."""

_INDEX: Final = re.compile(r"([A-Z_]+)(\d+)|rank (\d+)")


def indices(rank: str) -> dict[str, int]:
    """Return the parts of a rank, `DP1 TP0` -> {"DP": 1, "TP": 0}."""
    return {found[1] or "rank": int(found[2] or found[3]) for found in _INDEX.finditer(rank)}


def best_first(found: Iterable[Found]) -> list[Found]:
    """Return statements so that the first one of each fact is the server's.

    The heavier message counts; among equals the lowest rank, then the earliest. Repeats of one
    value by one rank are dropped.
    """
    unique: dict[tuple[str, object, str], Found] = {}
    for each in found:
        key = (each.fact.name, each.fact.value, each.fact.rank)
        if key not in unique or each.weight > unique[key].weight:
            unique[key] = each
    return sorted(unique.values(), key=_order)


def _order(each: Found) -> tuple[object, ...]:
    fact = each.fact
    slow = -float(fact.value) if fact.name in SLOWEST and not isinstance(fact.value, str) else 0.0
    ranks = indices(fact.rank)
    return (fact.name, -each.weight, slow, sorted(ranks.values(), reverse=True), each.order)


def summed(found: list[Found], each_name: str, total_name: str) -> list[Found]:
    """Return the total over data-parallel ranks of what each of them states.

    A rank's own value is its first statement of the heaviest kind; within one data-parallel rank
    the smallest counts, because its tensor- and pipeline-parallel ranks hold the same tokens.
    """
    stated = [each for each in best_first(found) if each.fact.name == each_name]
    if not stated:
        return []
    heaviest = max(each.weight for each in stated)
    of_rank: dict[int, dict[tuple[int, ...], Found]] = {}
    for each in stated:
        if each.weight == heaviest:
            ranks = indices(each.fact.rank)
            part = tuple(index for name, index in ranks.items() if name != "DP")
            of_rank.setdefault(ranks.get("DP", 0), {}).setdefault(part, each)
    least = [min(parts.values(), key=_value) for parts in of_rank.values()]
    total = sum(int(each.fact.value) for each in least)
    fact = replace(least[0].fact, name=total_name, value=total, rank="")
    return [replace(least[0], fact=fact)]


def without_single(found: list[Found]) -> list[Found]:
    """Return statements with ranks only where there are several: `TP0` alone says nothing."""
    seen: dict[str, set[int]] = {}
    for each in found:
        for name, index in indices(each.fact.rank).items():
            seen.setdefault(name, set()).add(index)
    single = {name for name, numbers in seen.items() if numbers == {0}}
    if not single:
        return found
    return [replace(each, fact=_less(each.fact, single)) for each in found]


def _less(fact: Fact, single: set[str]) -> Fact:
    kept = [part for part in re.split(r" (?!\d+$)", fact.rank) if _name(part) not in single]
    return replace(fact, rank=" ".join(kept))


def _name(part: str) -> str:
    return next(iter(indices(part)), part)


def _value(each: Found) -> int:
    return int(each.fact.value)
