"""Which boots and loads tables show, labelled and in order, and their values over boots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pandas.api.types import is_scalar

from runner import workloads
from runner.stored.frames import Results, once
from runner.tables.brackets import Values
from runner.tables.kinds import Key, Kinds, kinds_of


@once
def complete(results: Results) -> pd.DataFrame:
    """Return the complete boots, labelled; priming boots are none."""
    boots = results.boots[(results.boots.outcome == "done") & (results.boots.boot >= 0)]
    return labelled(boots, results)


@once
def kinds_by_cell(results: Results) -> dict[Key, Kinds]:
    """Return the kinds of the complete boots of each cell."""
    return kinds_of(complete(results), results)


@once
def measured(results: Results) -> pd.DataFrame:
    """Return the loads of complete boots in the order of cells, loads and boots, void ones too.

    Loads whose answers alone are their result are left out, see `every_load`; so are the probes of
    a search: each boot chose its own levels, see the table `capacity`.
    """
    loads = every_load(results)
    untimed = [name for name in workloads.names() if not workloads.get(name).timed]
    return loads[~loads.workload.isin(untimed)]


@once
def every_load(results: Results) -> pd.DataFrame:
    """Return all loads of complete boots but probes, those too whose latencies are no result."""
    boots = results.boots[(results.boots.outcome == "done") & (results.boots.boot >= 0)]
    keys = ["experiment", "run", "cell_id", "boot", "attempt"]
    own = ["block", "kv_tokens", "max_running", "compile_cache"]
    loads = results.loads[results.loads.search.isna()].merge(boots[[*keys, *own]], on=keys)
    return labelled(loads, results).sort_values(["place", "order", "repeat", "boot"], kind="stable")


def labelled(frame: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return the frame with each cell's `label`, and `place`, the order of the cells.

    Where several experiments or runs are shown, labels tell which; `own_label` does not.
    """
    marks = ["label", "simulated", "rehearsal"]
    cells = results.cells[["experiment", "run", "cell_id", *marks]].copy()
    cells["own_label"] = cells.label
    cells["label"] = _titles(cells)
    cells["place"] = range(len(cells))
    kept: Any = frame.drop(columns=[column for column in marks if column in frame])
    merged: pd.DataFrame = kept.merge(cells, on=["experiment", "run", "cell_id"])
    return merged.sort_values(["place"], kind="stable")


def _titles(cells: pd.DataFrame) -> list[str]:
    several = cells.experiment.nunique() > 1
    runs = dict(cells.groupby("experiment").run.nunique())
    return [
        (f"{experiment}: " if several else "")
        + label
        + (f" ({run})" if runs[experiment] > 1 else "")
        for experiment, run, label in zip(cells.experiment, cells.run, cells.label, strict=True)
    ]


def by_load(loads: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield (cell, load, its boots) in order; boots of different runs stay apart."""
    keys = ["experiment", "run", "place", "label", "load", "repeat"]
    repeats = dict(loads.groupby("load").repeat.nunique())
    groups: Any = loads.groupby(keys, sort=False)
    for key, boots in groups:
        label, load, repeat = str(key[3]), str(key[4]), key[5]
        yield label, f"{load} #{repeat + 1}" if repeats[load] > 1 else load, boots


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as mappings, None for what is missing."""
    return [
        {str(name): None if _missing(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _missing(value: Any) -> bool:
    return is_scalar(value) and bool(pd.isna(value))


def values(boots: pd.DataFrame, column: str, scale: float = 1.0, *, timed: bool = True) -> Values:
    """Return a column's value of each boot, None where it gave none, or comes of void times."""
    return tuple(
        None if (timed and verdict == "void") or pd.isna(value) else float(value) * scale
        for verdict, value in zip(boots.verdict, boots[column], strict=True)
    )
