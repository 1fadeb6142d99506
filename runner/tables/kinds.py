"""Boots of one cell that are not of one kind: their KV tokens, chunk, graphs or caches differ.

Found from facts at any number of boots, with no test. Figures of different kinds are never
averaged: a mean between a start with 22,048 KV tokens and one with 26,560 describes neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from runner.boots.drift import ROUNDING_BYTES
from runner.stats.groups import Fact, by_fact
from runner.stats.share import Share
from runner.stored.frames import Results
from runner.tables.columns import FLOOR
from runner.tables.grid import number

Key = tuple[str, str, str]
"""Experiment, run and cell_id."""

KEY: Final = ["experiment", "run", "cell_id"]

KV: Final = "KV tokens"
_COLUMNS: Final = {
    KV: "kv_tokens",
    "chunk tokens": "chunk_tokens",
    "compile cache": "compile_cache",
    "machine": "host",
    "build": "build_id",
}
_GRAPHS: Final = "graph bytes"
_CLIENT: Final = "client floor ms"
MOST_ROWS: Final = 3
"""More kinds than this are told in one row: as many rows as boots show no kind, only noise."""
_SMALL_MS: Final = 1.0
_ANOTHER_RATIO: Final = 3.0
"""A client's floor differs when it is this much larger, and larger than what nobody would see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Boots of one cell that agree.

    Attributes:
        boots: their numbers.
        facts: what tells them from the other kinds, as it is shown; empty when there is one kind.
        share: how often such a start occurs.
    """

    boots: tuple[int, ...]
    facts: Mapping[str, str]
    share: Share

    @property
    def told(self) -> str:
        """Return what tells it from the others, as `KV tokens 26 560`."""
        return ", ".join(f"{name} {value}" for name, value in self.facts.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The kinds of boots of one cell, the most frequent first.

    Attributes:
        cell: the cell as tables name it.
        kinds: at least one.
        ranges: what tells the kinds apart, each with what it was over all boots.
    """

    cell: str
    kinds: tuple[Kind, ...]
    ranges: Mapping[str, str] = field(default_factory=dict)

    @property
    def several(self) -> bool:
        """Tell whether no single figure may describe the cell."""
        return len(self.kinds) > 1

    @property
    def many(self) -> bool:
        """Tell whether the kinds are too many for a row each: one row tells their range."""
        return len(self.kinds) > MOST_ROWS

    @property
    def summed(self) -> str:
        """Return all kinds in one line, as `14 kinds in 20 boots, KV tokens 20 480 to 26 560`."""
        over = ", ".join(f"{name} {span}" for name, span in self.ranges.items())
        return f"{len(self.kinds)} kinds in {self.boots} boots, {over}"

    @property
    def boots(self) -> int:
        """Return how many boots there are."""
        return sum(len(kind.boots) for kind in self.kinds)

    @property
    def told(self) -> str:
        """Return the sentence that stands wherever the cell is shown."""
        if self.many:
            return (
                f"{self.cell}: {self.summed}. Each start may be of yet another kind. No single mean"
                " or median describes them, so none is shown, only every boot and their range"
            )
        by = ", ".join(self.kinds[0].facts)
        listed = "; ".join(f"{self._named(kind)} in {numbered(kind.boots)}" for kind in self.kinds)
        shares = ", ".join(dict.fromkeys(str(kind.share) for kind in self.kinds))
        return (
            f"{self.cell}: its {self.boots} boots are of {len(self.kinds)} kinds by {by}: {listed}."
            f" How often each occurs is unknown: {shares}. No single mean or median describes them,"
            " so none is shown"
        )

    @staticmethod
    def _named(kind: Kind) -> str:
        return kind.told if len(kind.facts) > 1 else next(iter(kind.facts.values()))


def kinds_of(boots: pd.DataFrame, results: Results) -> dict[Key, Kinds]:
    """Return the kinds of each cell's boots.

    Args:
        boots: complete boots, labelled.
        results: whose facts tell of graphs.
    """
    graphs = _graphs(results)
    found: dict[Key, Kinds] = {}
    groups: Any = boots.groupby(KEY, sort=False)
    for key, own in groups:
        ordered = own.drop_duplicates("boot", keep="last").sort_values("boot")
        found[key] = _kinds(key, ordered, graphs)
    return found


def _kinds(key: Key, boots: pd.DataFrame, graphs: Mapping[tuple[Any, ...], float]) -> Kinds:
    numbers = [int(boot) for boot in boots.boot]
    facts: dict[str, Sequence[Fact]] = {
        name: [None if pd.isna(value) else value for value in boots[column]]
        for name, column in _COLUMNS.items()
    }
    attempts = zip(boots.boot, boots.attempt, strict=True)
    facts[_GRAPHS] = _snapped([graphs.get((*key, boot, attempt)) for boot, attempt in attempts])
    facts[_CLIENT] = _floors([None if pd.isna(f) else float(f) for f in boots[FLOOR]])
    groups = by_fact(facts)
    telling = [name for name, values in facts.items() if len(groups) > 1 and _tells(name, groups)]
    ranges = {name: _spanned(facts[name]) for name in telling}
    kinds = (
        Kind(
            boots=tuple(numbers[place] for place in group.boots),
            facts={name: _spelled(group.facts[name]) for name in telling},
            share=group.share,
        )
        for group in groups
    )
    return Kinds(cell=str(boots.label.iloc[0]), kinds=tuple(kinds), ranges=ranges)


def _tells(name: str, groups: Sequence[Any]) -> bool:
    """Tell whether a fact differs by over 1 % between any two groups."""
    merged = [value for group in groups for value in group.facts[name]]
    return len(by_fact({name: merged})) > 1


def _graphs(results: Results) -> dict[tuple[Any, ...], float]:
    """Return the memory of CUDA graphs of each boot that stated it; 0 where there are none."""
    facts = results.facts[results.facts.name.isin(["graph_bytes", "enforce_eager"])]
    found: dict[tuple[Any, ...], float] = {}
    columns = (*KEY, "boot", "attempt", "name", "value")
    for *key, name, value in zip(*(facts[column] for column in columns), strict=True):
        if name == "graph_bytes":
            found.setdefault(tuple(key), float(value))
        elif value == "True":
            found[tuple(key)] = 0.0
    return found


def _snapped(values: Sequence[float | None]) -> list[Fact]:
    """Return sizes with those that printing alone may have parted made equal."""
    lowest: dict[float, float] = {}
    for value in sorted({value for value in values if value is not None}):
        below = max(lowest, default=None)
        near = below is not None and value - below <= 2 * ROUNDING_BYTES
        lowest[value] = lowest[below] if near and below is not None else value
    return [None if value is None else lowest[value] for value in values]


def _floors(values_s: Sequence[float | None]) -> list[Fact]:
    """Return each client's floor in ms, equal where no figure could tell the clients apart."""
    known = sorted({1e3 * value for value in values_s if value is not None})
    alike: dict[float, float] = {}
    for value in known:
        below = max(alike, default=None)
        lowest = alike[below] if below is not None else value
        same = value <= max(_SMALL_MS, _ANOTHER_RATIO * lowest)
        alike[value] = lowest if same else value
    first = round(min(known, default=0.0), 3)
    return [first if value is None else round(alike[1e3 * value], 3) for value in values_s]


def _spelled(values: Sequence[Fact]) -> str:
    shown = [number(v) if isinstance(v, (int, float)) else v or "unknown" for v in values]
    listed = list(dict.fromkeys(shown))
    return listed[0] if len(listed) == 1 else f"{listed[0]} to {listed[-1]}"


def _spanned(values: Sequence[Fact]) -> str:
    """Return what a fact was over all boots: numbers as a range, words each."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    words = list(dict.fromkeys(v or "unknown" for v in values if not isinstance(v, (int, float))))
    if not numbers:
        return ", ".join(words)
    low, high = number(min(numbers)), number(max(numbers))
    return ", ".join([low if low == high else f"{low} to {high}", *words])


def numbered(boots: Sequence[int]) -> str:
    """Return boots as `boot 0` or `boots 1-3`."""
    return f"boot {boots[0]}" if len(boots) == 1 else f"boots {spans(boots)}"


def spans(numbers: Sequence[int]) -> str:
    """Return numbers as `0-4, 6`."""
    parts: list[list[int]] = []
    for one in sorted(numbers):
        if parts and one == parts[-1][-1] + 1:
            parts[-1].append(one)
        else:
            parts.append([one])
    listed = (f"{p[0]}-{p[-1]}" if len(p) > 2 else ", ".join(map(str, p)) for p in parts)
    return ", ".join(listed)
