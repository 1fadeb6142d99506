"""Prefix-cache hits of each load: what the prompts share by construction, and what was measured."""

from __future__ import annotations

from typing import Any

import pandas as pd

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.measured import by_load, measured, values

_NOTE = (
    "by usage: cached tokens that each answer reports. by counters: growth of the server's own"
    " totals over the load, warm-up and control requests included."
)


def build(results: Results) -> Shown | None:
    """Show hits as shares of prompt tokens: by construction, by usage, by the server's counters."""
    loads = measured(results)
    if loads.empty:
        return None
    frame = loads.assign(
        constructed=loads.expected_hit_tokens / loads.input_tokens,
        by_usage=loads.cached_tokens / loads.input_tokens,
        by_counter=loads.prefix_hit_tokens / loads.prefix_query_tokens,
    )
    rows = [_row(cell, load, boots) for cell, load, boots in by_load(frame)]
    return Shown(frame=pd.DataFrame(rows), notes=[_NOTE])


def _row(cell: str, load: str, boots: pd.DataFrame) -> dict[str, Any]:
    return {
        "cell": cell,
        "load": load,
        "by construction": values(boots, "constructed"),
        "by usage": values(boots, "by_usage"),
        "by counters": values(boots, "by_counter"),
        "flushed before": ", ".join(dict.fromkeys(str(value) for value in boots.flushed)),
        "preemptions": values(boots, "preemptions"),
    }


TABLE = Table(
    name="hits", title="Prefix-cache hits, as shares of prompt tokens", order=60, build=build
)
