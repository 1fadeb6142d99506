"""The tables of a report: one file each, found by its file name.

A table is a pure function from stored frames to a frame in the units people read (ms, GiB), with
the sentences that must stand beside it. Adding a table is adding one file that defines `TABLE`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from runner.results import Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table as it is shown.

    Attributes:
        frame: one column for each heading, units in the headings; a tuple in a cell is one value
            for each boot.
        above: sentences that stand over it.
        notes: sentences that stand under it: doubts and definitions.
    """

    frame: pd.DataFrame
    above: Sequence[str] = ()
    notes: Sequence[str] = ()


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
