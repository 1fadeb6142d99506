"""The client's proof: how exact the times of each load are, and what its verdict rests on."""

from __future__ import annotations

from typing import Any

import pandas as pd

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.measured import by_load, measured

_WORST = {
    "in flight, held / asked": ("held_in_flight_ratio", 1.0, min),
    "send lag p99 ms": ("send_lag_p99_s", 1e3, max),
    "client lag p99 ms": ("client_lag_p99_s", 1e3, max),
    "error left p99 ms": ("remaining_error_p99_s", 1e3, max),
    "several chunks a read": ("several_chunks_ratio", 1.0, max),
    "off the wire p99 ms, TTFT": ("wire_ttft_error_p99_s", 1e3, max),
    "ITL": ("wire_itl_error_p99_s", 1e3, max),
    "CPU µs a token": ("cpu_per_token_s", 1e6, max),
}
"""Heading -> column, scale, and which boot's value is the worst."""


_NOTE = (
    "Each figure is that of the worst boot. Error left: what kernel stamps cannot correct; over"
    " a tenth of the median ITL a load is void."
)


def build(results: Results) -> Shown | None:
    """Show the worst boot of each load: lags against kernel stamps, the error left, CPU, way."""
    loads = measured(results)
    if loads.empty:
        return None
    rows = [_row(cell, load, boots) for cell, load, boots in by_load(loads)]
    return Shown(frame=pd.DataFrame(rows), notes=[_NOTE])


def _row(cell: str, load: str, boots: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {"cell": cell, "load": load}
    for heading, (column, scale, worst) in _WORST.items():
        known = boots[column].dropna() if column in boots else ()
        if len(known) or not column.startswith("wire_"):
            row[heading] = worst(known) * scale if len(known) else None
    return row | {
        "stamps": _listed(boots["stamp"]),
        "way": _listed(boots["way"]),
        "verdict": _listed(boots["verdict"]),
    }


def _listed(column: pd.Series[Any]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in column.dropna()))


TABLE = Table(name="client", title="The client's proof", order=80, build=build)
