"""Answers that should be JSON: how many are, how many obey their schema, and what it costs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from runner.figures.latency import e2e_s, served, ttft_s
from runner.load import Timeline
from runner.workloads.structured import COLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """One load.

    Attributes:
        answers: answers that came whole.
        finished: those that ended by themselves; rates are of these, for one that was cut at its
            longest length cannot be JSON.
        json: finished answers that are JSON.
        valid: finished answers that obey their schema.
        mean_output_tokens: mean length of all answers: the covariate of every comparison.
    """

    answers: int
    finished: int
    json: int
    valid: int
    mean_output_tokens: float | None

    @property
    def json_ratio(self) -> float | None:
        """Return the share of finished answers that are JSON."""
        return self.json / self.finished if self.finished else None

    @property
    def valid_ratio(self) -> float | None:
        """Return the share of finished answers that obey their schema."""
        return self.valid / self.finished if self.finished else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """Times to first token with a grammar that is compiled, and with one that is there.

    Attributes:
        cold_s: of the first request of each schema, and of those sent before it was answered.
        warm_s: of the others.
    """

    cold_s: tuple[float, ...]
    warm_s: tuple[float, ...]


def validity(
    answers: Iterable[tuple[Timeline, str]],
    schemas: Mapping[str, Mapping[str, Any]],
    longest_tokens: int,
) -> Validity:
    """Judge the answers of one load.

    Args:
        answers: each request with the text of its answer.
        schemas: the schema of each group.
        longest_tokens: the most tokens an answer may have; as long means cut.
    """
    from jsonschema import Draft202012Validator

    judges = {name: Draft202012Validator(dict(schema)) for name, schema in schemas.items()}
    came = [(one, text) for one, text in answers if served(one)]
    lengths = [one.output_tokens or 0 for one, _ in came]
    whole = [(o, text) for o, text in came if (o.output_tokens or 0) < longest_tokens]
    read = [(one, _read(text)) for one, text in whole]
    return Validity(
        answers=len(came),
        finished=len(whole),
        json=sum(bool(values) for _, values in read),
        valid=sum(bool(values) and judges[one.group].is_valid(values[0]) for one, values in read),
        mean_output_tokens=fmean(lengths) if lengths else None,
    )


def grammar(timelines: Iterable[Timeline]) -> Grammar:
    """Split the TTFT of one load by whether the grammar had been compiled."""
    listed = [one for one in timelines if served(one)]
    first_ns: dict[str, int] = {}
    for one in listed:
        if one.role == COLD and one.first_ns is not None:
            first_ns[one.group] = min(one.first_ns, first_ns.get(one.group, one.first_ns))
    cold: list[float] = []
    warm: list[float] = []
    for one in listed:
        ttft = ttft_s(one)
        if ttft is None:
            continue
        there_ns = first_ns.get(one.group)
        compiling = one.role == COLD or (there_ns is not None and one.sent_ns < there_ns)
        (cold if compiling else warm).append(ttft)
    return Grammar(cold_s=tuple(cold), warm_s=tuple(warm))


def cost_at_equal_lengths(
    free: Iterable[Timeline], constrained: Iterable[Timeline]
) -> float | None:
    """Return end-to-end time of constrained over free answers of equal length; 1 costs nothing.

    Means of each output length that both have, weighted by the smaller count (exact matching on
    the covariate); None when no length is in both.
    """
    one, other = _by_length(free), _by_length(constrained)
    shared = one.keys() & other.keys()
    weights = {length: min(len(one[length]), len(other[length])) for length in shared}
    free_s = sum(weight * fmean(one[length]) for length, weight in weights.items())
    if not free_s:
        return None
    return sum(weight * fmean(other[length]) for length, weight in weights.items()) / free_s


def _by_length(timelines: Iterable[Timeline]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = defaultdict(list)
    for one in timelines:
        seconds = e2e_s(one)
        if served(one) and seconds is not None and one.output_tokens:
            found[one.output_tokens].append(seconds)
    return found


def _read(text: str) -> list[Any]:
    """Return the JSON value of a text as a list of one, or of none where it is no JSON."""
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        return []
