"""Values of loads over boots: every boot is shown, with their median and range.

The unit of replication is the boot: requests are never pooled over boots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pandas.api.types import is_scalar

from runner.doubts import ADVICE
from runner.results import Results
from runner.tables import Centre, Shown

Values = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a load.

    Attributes:
        heading: its name and unit in the table.
        symbol: a short name for its median and range.
        column: its column in `loads`.
        scale: from the stored unit to the shown one.
        fallback: the column shown instead, as a maximum, where requests are too few for a p99.
    """

    heading: str
    symbol: str
    column: str
    scale: float = 1.0
    fallback: str | None = None


def over_boots(results: Results, metrics: tuple[Metric, ...]) -> Shown | None:
    """Return a row for each cell and load: each metric's boots, their median and range."""
    loads = measured(results)
    if loads.empty:
        return None
    rows: list[dict[str, Any]] = []
    doubts: dict[str, str] = {}
    for cell, load, boots in by_load(loads):
        row: dict[str, Any] = {"cell": cell, "load": load}
        found = doubts_of(boots)
        for metric in metrics:
            row |= _shown(metric, boots, found)
        doubts |= found
        rows.append(row | {"doubts": ", ".join(found)})
    return Shown(frame=pd.DataFrame(rows), doubts=doubts)


def measured(results: Results) -> pd.DataFrame:
    """Return the loads of complete boots in the order of cells, loads and boots, void ones too."""
    boots = results.boots[(results.boots.outcome == "done") & (results.boots.boot >= 0)]
    keys = ["experiment", "run", "cell_id", "boot", "attempt"]
    loads = results.loads.merge(boots[[*keys, "block", "kv_tokens"]], on=keys)
    return labelled(loads, results).sort_values(["place", "order", "repeat", "boot"], kind="stable")


def labelled(frame: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return the frame with each cell's `label`, and `place`, the order of the cells."""
    marks = ["label", "simulated", "rehearsal"]
    cells = results.cells[["experiment", "run", "cell_id", *marks]].copy()
    cells["place"] = range(len(cells))
    kept: Any = frame.drop(columns=[column for column in marks if column in frame])
    merged: pd.DataFrame = kept.merge(cells, on=["experiment", "run", "cell_id"])
    return merged.sort_values(["place"], kind="stable")


def by_load(loads: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield (cell, load, its boots) in order; boots of different runs stay apart."""
    keys = ["experiment", "run", "place", "label", "order", "load", "repeat"]
    several_runs = loads.run.nunique() > 1
    groups: Any = loads.groupby(keys, sort=False)
    for key, boots in groups:
        run, label, load, repeat = key[1], key[3], str(key[5]), key[6]
        repeats = loads[loads.load == load]["repeat"].nunique()
        yield (
            f"{label} ({run})" if several_runs else str(label),
            f"{load} #{repeat + 1}" if repeats > 1 else load,
            boots,
        )


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as mappings, None for what is missing."""
    return [
        {str(name): None if _missing(value) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _missing(value: Any) -> bool:
    return is_scalar(value) and bool(pd.isna(value))


def values(boots: pd.DataFrame, column: str, scale: float = 1.0) -> Values:
    """Return a column's value of each boot, None where the load is void or gave none."""
    return tuple(
        None if verdict == "void" or pd.isna(value) else float(value) * scale
        for verdict, value in zip(boots.verdict, boots[column], strict=True)
    )


def doubts_of(boots: pd.DataFrame) -> dict[str, str]:
    """Return the doubts on these loads, each once, with what to do."""
    found = {
        entry["name"]: f"{entry['sentence'].rstrip('.')}. {entry['advice']}"
        for entries in boots.doubts
        if entries is not None
        for entry in entries
    }
    if (boots.verdict != "void").sum() == 1:
        found["single_boot"] = "one boot alone stands behind it. Write boots = 3 or more."
    return found


def _shown(metric: Metric, boots: pd.DataFrame, found: dict[str, str]) -> dict[str, Any]:
    over = values(boots, metric.column, metric.scale)
    heading = metric.heading
    if metric.fallback and all(value is None for value in over):
        over = values(boots, metric.fallback, metric.scale)
        if any(value is not None for value in over):
            found["few_requests"] = f"{heading} shows the maximum. {ADVICE['few_requests'][1]}"
    return {heading: over, f"median [range] {metric.symbol}": Centre.of(over)}
