"""Start-up and KV capacity of every boot: what each server decided and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.measured import labelled, records

_GIB = 1 << 30


def build(results: Results) -> Shown | None:
    """Show each boot that became ready: KV tokens, memory, and seconds until the first token."""
    ready = results.boots[results.boots.ready_s.notna()]
    if ready.empty:
        return None
    boots = labelled(ready, results).sort_values(["place", "boot", "attempt"], kind="stable")
    each = records(boots)
    frame = pd.DataFrame([_row(boot) for boot in each])
    return Shown(frame=frame, doubts=_all_doubts(each))


def _row(boot: dict[str, Any]) -> dict[str, Any]:
    return {
        "cell": boot["label"],
        "boot": "priming" if boot["boot"] < 0 else str(boot["boot"]),
        "KV tokens": boot["kv_tokens"],
        "KV GiB": _scaled(boot["kv_bytes"], _GIB),
        "weights GiB": _scaled(boot["weights_bytes"], _GIB),
        "chunk tokens": boot["chunk_tokens"],
        "max running": boot["max_running"],
        "ready s": boot["ready_s"],
        "compile cache": boot["compile_cache"],
        "version": boot["version"],
        "doubts": ", ".join(entry["name"] for entry in _doubts(boot)),
    }


def _scaled(value: float | None, unit: int) -> float | None:
    return None if value is None or pd.isna(value) else value / unit


def _doubts(boot: dict[str, Any]) -> list[dict[str, str]]:
    return list(boot["doubts"]) if boot["doubts"] is not None else []


def _all_doubts(boots: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for boot in boots:
        for entry in _doubts(boot):
            who = f"{boot['label']} boot {boot['boot']}"
            found.setdefault(entry["name"], []).append(f"{who}: {entry['sentence']}")
    return found


TABLE = Table(name="startup", title="Start-up and KV capacity, every boot", order=10, build=build)
