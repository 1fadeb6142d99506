"""The server's queue and its KV cache while it was loaded, from readings once a second."""

from __future__ import annotations

from typing import Any

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.measured import measured
from runner.tables.over_boots import Metric, over_boots

_KEYS = ["experiment", "run", "cell_id", "boot", "attempt", "load", "repeat"]
_NOTE = (
    "From the server's metrics page, read once a second beside the load. Put back: for want of KV"
    " memory (vLLM's preemptions, SGLang's retractions). Accepted: drafted tokens, speculation."
)


def build(results: Results) -> Shown | None:
    """Show mean and largest queue, the fullest KV cache, and what was put back."""
    readings = results.table("metrics")
    if readings.empty:
        return None
    groups: Any = readings.groupby(_KEYS, sort=False)
    found = groups.agg(
        readings=("at", "count"),
        mean_running=("running", "mean"),
        most_waiting=("waiting", "max"),
        fullest_ratio=("kv_used_ratio", "max"),
        put_back=("preemptions", "max"),
        accepted=("accepted_ratio", "mean"),
    ).reset_index()
    loads = measured(results).merge(found, on=_KEYS, how="inner")
    columns = (
        ("readings", "readings", 1.0),
        ("running, mean", "mean_running", 1.0),
        ("waiting, most", "most_waiting", 1.0),
        ("KV used, most %", "fullest_ratio", 100.0),
        ("put back", "put_back", 1.0),
        ("accepted %", "accepted", 100.0),
    )
    metrics = tuple(
        Metric(heading=heading, symbol="", column=column, scale=scale, centre=False, timed=False)
        for heading, column, scale in columns
    )
    shown = over_boots(results, metrics, loads)
    if shown is None:
        return None
    return Shown(frame=shown.frame, notes=[_NOTE])


TABLE = Table(
    name="pressure",
    title="Queue and KV cache under load",
    order=61,
    build=build,
    asked=True,
)
