"""The facts of an SGLang server out of all that its ranks stated; its pools are kept apart.

A pool line says neither whose pool it is nor, before 0.5.17, of which kind: of one rank's lines
the sliding-window pool has the tokens that were announced for it, the first other one is the
model's, and a further one with other numbers the draft model's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from engines.choosing import best_first, summed, without_single
from engines.grammar import Found

_NAMES: Final = {
    "model": {
        "pool_tokens": "engine_kv_tokens",
        "pool_k_bytes": "kv_k_bytes",
        "pool_v_bytes": "kv_v_bytes",
        "pool_kv_bytes": "kv_bytes",
        "pool_dtype": "kv_dtype",
    },
    "swa": {
        "pool_tokens": "swa_tokens",
        "pool_k_bytes": "swa_k_bytes",
        "pool_v_bytes": "swa_v_bytes",
        "pool_kv_bytes": "swa_bytes",
        "pool_dtype": "kv_dtype",
    },
    "draft": {
        "pool_tokens": "draft_kv_tokens",
        "pool_k_bytes": "draft_k_bytes",
        "pool_v_bytes": "draft_v_bytes",
        "pool_kv_bytes": "draft_kv_bytes",
    },
}


@dataclass(slots=True)
class _Rank:
    """What is known of one rank while its statements are gone through."""

    swa_tokens: set[object] = field(default_factory=set)
    model: tuple[object, ...] | None = None
    loads: list[object] = field(default_factory=list)


def settle(found: list[Found]) -> list[Found]:
    """Return the facts, the server's own first: the capacity is summed over data-parallel ranks."""
    found = list(_loads(_pools(found)))
    found += list(_totals(found))
    found += summed(found, "engine_kv_tokens", "kv_tokens")
    return best_first(without_single(found))


def _pools(found: list[Found]) -> Iterator[Found]:
    ranks: dict[str, _Rank] = {}
    for line in _by_line(found):
        rank = ranks.setdefault(line[0].fact.rank, _Rank())
        rank.swa_tokens |= {each.fact.value for each in line if each.fact.name == "swa_tokens"}
        stated = {each.fact.name: each.fact.value for each in line}
        is_pool = any(name.startswith("pool_") for name in stated)
        names = _NAMES[_kind(rank, stated)] if is_pool else {}
        for each in line:
            name = names.get(each.fact.name, each.fact.name)
            if is_pool and each.fact.value == 0 and stated.get("pool_tokens"):
                continue  # 0.00 GB of some tokens is a rounded size, not none
            if not name.startswith("pool_"):
                yield replace(each, fact=replace(each.fact, name=name))


def _kind(rank: _Rank, stated: Mapping[str, object]) -> str:
    label = str(stated.get("pool_label", "")).strip()
    tokens = stated.get("pool_tokens")
    if label == "SWA" or (not label and tokens in rank.swa_tokens):
        return "swa"
    if label == "draft":
        return "draft"
    numbers = tuple(value for name, value in sorted(stated.items()) if name.endswith("bytes"))
    same = (tokens, *numbers)
    if rank.model is None or rank.model == same:
        rank.model = same
        return "model"
    return "draft"


def _by_line(found: list[Found]) -> Iterator[list[Found]]:
    """Yield statements that stand in one message together."""
    group: list[Found] = []
    for each in found:
        if group and each.order != group[0].order:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _loads(found: Iterator[Found]) -> Iterator[Found]:
    """Yield statements with the draft model's loading kept apart from the model's."""
    ranks: dict[str, _Rank] = {}
    for line in _by_line(list(found)):
        stated = {each.fact.name: each.fact.value for each in line}
        draft = False
        if "free_after_load_bytes" in stated:
            rank = ranks.setdefault(line[0].fact.rank, _Rank())
            size = stated.get("weights_bytes")
            draft = bool(rank.loads) and rank.loads[0] != size
            rank.loads.append(size)
        for each in line:
            if not draft:
                yield each
            elif each.fact.name == "weights_bytes":
                yield replace(each, fact=replace(each.fact, name="draft_weights_bytes"))


def _totals(found: list[Found]) -> Iterator[Found]:
    """Yield what follows from one message: the pool's bytes, and a hybrid model's capacity."""
    for line in _by_line(found):
        stated = {each.fact.name: each for each in line}
        for kind in ("kv", "swa", "draft"):
            keys, values = stated.get(f"{kind}_k_bytes"), stated.get(f"{kind}_v_bytes")
            if keys and values:
                name = "draft_kv_bytes" if kind == "draft" else f"{kind}_bytes"
                both = int(keys.fact.value) + int(values.fact.value)
                yield replace(keys, fact=replace(keys.fact, name=name, value=both))
        full = stated.get("full_tokens")
        if full and int(full.fact.value) > 0:
            fact = replace(full.fact, name="engine_kv_tokens")
            yield replace(full, fact=fact, weight=full.weight + 2)
