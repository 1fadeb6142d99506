"""The tables of a report: one file each, found by its file name.

A table is a pure function from stored frames to a frame in the units people read (ms, GiB), with
the sentences that must stand beside it. Adding a table is adding one file that defines `TABLE`; a
file without one (`over_boots`, `kinds`) is shared by the others.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from runner.stored.frames import Results

Doubts = Mapping[str, Sequence[str]]
"""Name of a doubt -> what was seen, each with its subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Centre:
    """A figure over boots with its brackets: one cell for a reader, columns for a program.

    Attributes:
        middle: median of the boots, or the ratio of two geometric means; None where no single
            figure describes the boots, so that their range is all there is to tell.
        low, high: smallest and largest boot, or the limits of a 95 % interval.
        boots: how many boots (or blocks) there are; of one alone the three figures are the same.
        interval: the brackets are an interval.
    """

    middle: float | None
    low: float
    high: float
    boots: int
    interval: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table as it is shown.

    Attributes:
        frame: one column for each heading, units in the headings; a tuple in a cell is one value
            for each boot, a `Centre` their median with its brackets.
        above: sentences that stand over it.
        notes: sentences that stand under it: definitions.
        doubts: what it shows of each doubt; a report lists them once, with advice.
        keys: how many columns, from the left, say what a row is about.
    """

    frame: pd.DataFrame
    above: Sequence[str] = ()
    notes: Sequence[str] = ()
    doubts: Doubts = field(default_factory=dict)
    keys: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One kind of table.

    Attributes:
        name: the word for it on the command line; the file's name.
        title: its heading.
        order: its place in a report, small first.
        build: stored results -> what is shown; None where there is nothing to show.
        asked: it is shown only when it is asked for by its name.
    """

    name: str
    title: str
    order: int
    build: Callable[[Results], Shown | None] = field(repr=False)
    asked: bool = False


@functools.cache
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
