"""The tables of a report: one file each, found by its file name.

A table is a pure function from stored frames to a frame in the units people read (ms, GiB), with
the sentences that must stand beside it. Adding a table is adding one file that defines `TABLE`.
"""

from __future__ import annotations

import importlib
import pkgutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from runner.results import Results


@dataclass(frozen=True, slots=True)
class Centre:
    """Median and range over boots: one cell for a reader, three columns for a program."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Centre | None:
        """Return the centre of the values that are known, None without any."""
        known = [value for value in values if value is not None]
        return cls(statistics.median(known), min(known), max(known)) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table as it is shown.

    Attributes:
        frame: one column for each heading, units in the headings; a tuple in a cell is one value
            for each boot, a `Centre` their median and range.
        above: sentences that stand over it.
        notes: sentences that stand under it: definitions.
        doubts: name -> sentence and advice of each doubt it shows; a report lists them once.
    """

    frame: pd.DataFrame
    above: Sequence[str] = ()
    notes: Sequence[str] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One kind of table.

    Attributes:
        name: the word for it on the command line; the file's name.
        title: its heading.
        order: its place in a report, small first.
        build: stored results -> what is shown; None where there is nothing to show.
    """

    name: str
    title: str
    order: int
    build: Callable[[Results], Shown | None] = field(repr=False)


def names() -> tuple[str, ...]:
    """Return the names of all tables in the order of a report."""
    found = (info.name for info in pkgutil.iter_modules(__path__))
    tables = [get(name) for name in found if _has_table(name)]
    return tuple(table.name for table in sorted(tables, key=lambda t: (t.order, t.name)))


def get(name: str) -> Table:
    """Return the table of that name.

    Raises:
        KeyError: no file of that name defines one.
    """
    if not _has_table(name):
        raise KeyError(name)
    table: Table = importlib.import_module(f"{__name__}.{name}").TABLE
    return table


def _has_table(name: str) -> bool:
    try:
        return hasattr(importlib.import_module(f"{__name__}.{name}"), "TABLE")
    except ModuleNotFoundError as error:
        if error.name == f"{__name__}.{name}":
            return False
        raise
