"""A setting's three lives side by side: what was requested, what was sent, what was observed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from engines import Engine, Fact, Served

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lives:
    """One setting of one boot.

    Attributes:
        setting: its name.
        requested: as the experiment says; None where it does not.
        resolved: words sent for it, empty where the engine's default does it.
        observed: what the server stated, with the source of each.
        from_load: what a load showed.
    """

    setting: str
    requested: object
    resolved: tuple[str, ...]
    observed: tuple[Fact, ...]
    from_load: tuple[Fact, ...]


def lives(engine: Engine, served: Served, facts: Iterable[Fact]) -> tuple[Lives, ...]:
    """Return the three lives of each setting that was requested.

    Args:
        engine: whose flags are sent.
        served: what it is asked to serve.
        facts: what the server said; the first of a name and source is its own.
    """
    facts = tuple(facts)
    return tuple(
        Lives(
            setting=name,
            requested=value,
            resolved=resolved(engine, served, name),
            observed=_facts(facts, OBSERVED.get(name, (name,))),
            from_load=_facts(facts, FROM_LOAD.get(name, ())),
        )
        for name, value in served.settings.items()
    )


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


def _facts(facts: tuple[Fact, ...], names: tuple[str, ...]) -> tuple[Fact, ...]:
    """Return the first fact of each name and source."""
    first: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        if fact.name in names:
            first.setdefault((fact.name, fact.source), fact)
    return tuple(sorted(first.values(), key=lambda fact: names.index(fact.name)))
