"""Figures of loads that only their requests tell: read once, load by load, never whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from runner.load import Timeline
from runner.stored.frames import Results
from runner.tables.measured import measured

Derive = Callable[[Iterable[Timeline], Mapping[Any, Any]], Mapping[str, float | None]]


def derived(results: Results, workloads: tuple[str, ...], derive: Derive) -> pd.DataFrame:
    """Return the measured loads of some workloads with further columns.

    Args:
        results: their requests are read a batch at a time; what was read once is kept.
        workloads: names of workloads.
        derive: the requests of one load and its row -> its further columns; the same each time.
    """
    loads = measured(results)
    own = loads[loads.workload.isin(workloads)]
    columns = [_of(results, row, derive) for row in own.to_dict("records")]
    if not columns:
        return own
    found = own.copy()
    for name in columns[0]:
        found[name] = [row[name] for row in columns]
    return found


def _of(results: Results, row: Mapping[Any, Any], derive: Derive) -> Mapping[str, float | None]:
    names = ("experiment", "run", "cell_id", "boot", "attempt", "order")
    key = (derive, *(row[name] for name in names))
    if key not in results.kept:
        results.kept[key] = derive(results.timelines(row), row)
    found: Mapping[str, float | None] = results.kept[key]
    return found
