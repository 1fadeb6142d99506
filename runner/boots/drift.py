"""Doubts about what a server said of itself: a release nobody read, a missing fact, two truths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from engines import Engine, Fact, Value, Version, version_of
from engines.facts import AS_STORED, CATALOGUE
from engines.kv import disagreement, per_token, share
from runner.boots.pages import METRICS, Stated
from runner.doubts import Doubt, doubt

ROUNDING_BYTES = 2**30 * 0.011
"""Logs print keys and values each in hundredths of a GiB."""
ROUNDING_RATIO = 0.005
PIN_RATIO = 0.02
"""A capacity asked in tokens is rounded to blocks; the alignment calls 2 % equal, too."""


def doubts_about(engine: Engine, facts: Iterable[Fact], *, ready: bool) -> list[Doubt]:
    """Return the doubts that follow from a server's facts.

    Args:
        engine: what is known of its kind.
        facts: from all sources; the first of a name and source is the server's.
        ready: it became ready, so it must have stated what a ready server states.
    """
    facts = tuple(facts)
    found = [*_of_version(engine, facts), *_of_disagreement(facts)]
    return [*found, *_of_missing(engine, facts)] if ready else found


def doubts_about_kv(
    config: Mapping[str, Any], facts: Iterable[Fact], *, capped: bool = False
) -> list[Doubt]:
    """Return a doubt where the stated tokens and bytes of the KV cache do not fit the model.

    Args:
        config: the model's config.json.
        facts: what the server stated.
        capped: tokens were asked for, so that memory may be left over.
    """
    stated: dict[str, Value] = {}
    for fact in facts:
        stated.setdefault(fact.name, fact.value)
    token = per_token(config, str(stated.get("kv_dtype", "auto")))
    tokens = stated.get("engine_kv_tokens", stated.get("kv_tokens"))
    size = stated.get("kv_bytes")
    if token.size_bytes is None or not isinstance(tokens, int) or not isinstance(size, int):
        return []
    tensor, pipeline = stated.get("tensor_parallel", 1), stated.get("pipeline_parallel", 1)
    on_worker = share(config, token.size_bytes, tensor=int(tensor), pipeline=int(pipeline))
    said = disagreement(tokens, size, on_worker, at_most=capped)
    return [doubt("sources_disagree", "kv_bytes", said)] if said else []


def told_by(before: Stated, after: Stated | None) -> list[Fact]:
    """Return what a server's pages said of it before a load, and what the load showed.

    What a page kept to itself before the load counts as it says it afterwards.

    Args:
        before: the pages before the load.
        after: the pages after it; None where the server did not live so long.
    """
    later = after.facts if after is not None else ()
    return [
        *(fact for fact in before.facts if fact.source != "load"),
        *(fact for fact in later if fact.source == "load" or fact.source in before.silent),
    ]


def doubts_about_pages(before: Stated, after: Stated | None) -> list[Doubt]:
    """Return a doubt for each source whose facts are missing because it did not answer."""
    if after is None:
        missing = dict(before.silent)
    else:
        # what a load showed stands on the metrics page
        asked = {*before.silent, METRICS}
        missing = {source: said for source, said in after.silent.items() if source in asked}
    return [doubt("page_silent", source, said) for source, said in missing.items()]


def doubts_about_pin(asked_tokens: int | None, observed: Value | None) -> list[Doubt]:
    """Return a doubt where a server's KV capacity is not the one that it was asked for.

    Args:
        asked_tokens: tokens asked; None where nobody asked for a number of them.
        observed: what the server stated.
    """
    if asked_tokens is None or not isinstance(observed, (int, float)):
        return []
    if abs(observed - asked_tokens) <= PIN_RATIO * asked_tokens:
        return []
    said = f"{asked_tokens} KV tokens were asked for, the server has {observed:g}"
    return [doubt("kv_not_as_asked", "kv_tokens", said)]


def _of_version(engine: Engine, facts: tuple[Fact, ...]) -> Iterator[Doubt]:
    stated = next((str(fact.value) for fact in facts if fact.name == "version"), None)
    version = version_of(stated) if stated else None
    if stated is None or version is None:
        return
    oldest, newest = engine.known
    if oldest <= version <= (*newest, 10**6):
        return
    side, edge = ("older", oldest) if version < oldest else ("newer", newest)
    said = f"{engine.name} {stated} is {side} than {_dotted(edge)}, the {side[:3]}est release read"
    yield doubt("unknown_version", stated, said + "; its flags and log lines may differ.")


def _of_missing(engine: Engine, facts: tuple[Fact, ...]) -> Iterator[Doubt]:
    names = {fact.name for fact in facts}
    stated = next((str(fact.value) for fact in facts if fact.name == "version"), "unknown release")
    for name in engine.expected:
        if name not in names:
            meaning = CATALOGUE[name].meaning
            said = f"{engine.name} {stated} became ready without stating {name} ({meaning})."
            yield doubt("fact_missing", name, said)


def _of_disagreement(facts: tuple[Fact, ...]) -> Iterator[Doubt]:
    """Yield a doubt for each fact that two sources state differently for the whole server."""
    of_name: dict[str, dict[str, Fact]] = {}
    for fact in facts:
        if fact.source != "load" and _comparable(fact.value) is not None:
            of_name.setdefault(fact.name, {}).setdefault(fact.source, fact)
    for name, of_source in of_name.items():
        first, *others = of_source.values()
        for other in others:
            if first.rank == other.rank and not _agree(name, first.value, other.value):
                said = f"{name} is {_told(first)}, but {_told(other)}."
                yield doubt("sources_disagree", name, said)


def _agree(name: str, one: Value, other: Value) -> bool:
    if name == "version":
        return _base(one) == _base(other)
    if isinstance(one, str) or isinstance(other, str):
        return _comparable(one) == _comparable(other)
    is_size = name.endswith("_bytes")
    allowed = max(ROUNDING_BYTES if is_size else 0.0, ROUNDING_RATIO * abs(one) if is_size else 0.0)
    return abs(one - other) <= max(allowed, 1e-6)


def _comparable(value: Value) -> Value | None:
    """Return a value as it is compared; None for a word that is no choice."""
    if not isinstance(value, str):
        return value
    word = value.removeprefix("torch.").lower()
    # as stored may be quantized already, which another source then names
    return None if word in ("auto", "none", "", AS_STORED) else word


def _base(value: Value) -> str:
    return str(value).split("+", maxsplit=1)[0]


def _told(fact: Fact) -> str:
    rank = f" of {fact.rank}" if fact.rank else ""
    return f"{fact.value} by {fact.source}{rank}"


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
