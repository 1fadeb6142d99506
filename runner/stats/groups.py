"""Boots that differ by a fact: their KV tokens, chunk, graphs. At any n, with no test."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .interval import Interval, geometric
from .refusal import Boots, Refusal
from .share import Share, share

Fact: TypeAlias = float | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Boots that agree in every fact.

    Attributes:
        boots: their places, ascending.
        facts: name -> the values seen, in the order of `boots`.
        share: how often such a boot occurs.
    """

    boots: tuple[int, ...]
    facts: Mapping[str, tuple[Fact, ...]]
    share: Share


def by_fact(
    facts: Mapping[str, Sequence[Fact]], *, tolerance: float = 0.01, level: float = 0.95
) -> tuple[Group, ...]:
    """Return the groups of boots, largest first: no two boots of one differ by over `tolerance`.

    A number that spans more than the tolerance (of the larger magnitude) is cut at its widest
    gap until no part does; words must be equal; an unknown fact (None) is its own group, for it
    is no evidence of agreement with anything.

    Args:
        facts: name -> one value per boot.
        tolerance: relative difference that still counts as the same.
        level: of each group's exact interval.

    Raises:
        ValueError: the facts differ in their number of boots.
    """
    counts = {len(values) for values in facts.values()}
    if len(counts) != 1:
        raise ValueError(f"one value per boot and fact; got {sorted(counts)} values")
    labels = list(zip(*(_labels(values, tolerance) for values in facts.values()), strict=True))
    members = {label: [i for i, other in enumerate(labels) if other == label] for label in labels}
    ordered = sorted(members.values(), key=lambda boots: (-len(boots), boots))
    return tuple(_group(boots, facts, len(labels), level) for boots in ordered)


def one_mean(values: Boots, groups: Sequence[Group], level: float = 0.95) -> Interval | Refusal:
    """Return the geometric mean over all boots, refused when they are of more than one group."""
    if len(groups) == 1:
        return geometric(values, level)
    sizes = " + ".join(str(len(group.boots)) for group in groups)
    reason = f"the boots differ by a fact ({sizes}); no single mean describes them"
    return Refusal(method="geometric mean, t", n=len(values), reason=reason)


def _group(boots: list[int], facts: Mapping[str, Sequence[Fact]], n: int, level: float) -> Group:
    return Group(
        boots=tuple(boots),
        facts={name: tuple(values[i] for i in boots) for name, values in facts.items()},
        share=share(len(boots), n, level),
    )


def _labels(values: Sequence[Fact], tolerance: float) -> list[Fact]:
    # a frame spells an unknown number as NaN
    values = [None if isinstance(v, float) and math.isnan(v) else v for v in values]
    numbers = sorted({value for value in values if isinstance(value, int | float)})
    lowest = {value: part[0] for part in _parts(numbers, tolerance) for value in part}
    return [lowest[value] if isinstance(value, int | float) else value for value in values]


def _parts(numbers: list[float], tolerance: float) -> list[list[float]]:
    if len(numbers) < 2 or _gap(numbers[0], numbers[-1]) <= tolerance:
        return [numbers] if numbers else []
    gaps = [_gap(low, high) for low, high in itertools.pairwise(numbers)]
    cut = gaps.index(max(gaps)) + 1
    return _parts(numbers[:cut], tolerance) + _parts(numbers[cut:], tolerance)


def _gap(low: float, high: float) -> float:
    largest = max(abs(low), abs(high))
    return (high - low) / largest if largest else 0.0
