"""Boots that failed, were interrupted or could not be asked, each with its cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from engines.causes import CATALOGUE
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.measured import labelled, records


def build(results: Results) -> Shown | None:
    """Show every boot that did not end as done, with cause, evidence and what to change."""
    failed = results.boots[results.boots.outcome != "done"]
    rows = [_row(boot) for boot in records(labelled(failed, results))]
    rows += list(_inapplicable(results))
    if not rows:
        return None
    causes: list[str] = [row["cause"] for row in rows if row["cause"] in CATALOGUE]
    notes = [f"{cause}: {CATALOGUE[cause].hint}" for cause in dict.fromkeys(causes)]
    return Shown(frame=pd.DataFrame(rows), notes=notes)


def _row(boot: dict[str, Any]) -> dict[str, Any]:
    evidence = boot["evidence"] if boot["evidence"] is not None else ()
    told = next(iter(evidence), boot["message"])
    return {
        "cell": boot["label"],
        "boot": str(boot["boot"]),
        "attempt": boot["attempt"],
        "outcome": f"{boot['outcome']} (expected)" if boot["expected"] else boot["outcome"],
        "phase": boot["phase"],
        "cause": boot["cause"],
        "exit code": boot["exit_code"],
        "what it said": str(told or "")[:120],
    }


def _inapplicable(results: Results) -> Iterator[dict[str, Any]]:
    for cell in records(results.cells):
        reasons = cell["inapplicable"]
        if reasons is not None and len(reasons):
            yield {
                "cell": cell["label"],
                "boot": "-",
                "attempt": None,
                "outcome": "inapplicable",
                "phase": None,
                "cause": None,
                "exit code": None,
                "what it said": "; ".join(reasons),
            }


TABLE = Table(name="failures", title="What failed, and why", order=90, build=build)
