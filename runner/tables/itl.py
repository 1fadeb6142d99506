"""Inter-token latency and time per output token: every boot, their median and range."""

from __future__ import annotations

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.over_boots import Metric, over_boots


def build(results: Results) -> Shown | None:
    """Show ITL, the gap between chunks, and TPOT, (last - first) / (output tokens - 1)."""
    return over_boots(
        results,
        (
            Metric(heading="ITL p50 ms", symbol="p50", column="itl_p50_s", scale=1e3),
            Metric(
                heading="ITL p99 ms",
                symbol="p99",
                column="itl_p99_s",
                scale=1e3,
                fallback="itl_max_s",
            ),
            Metric(
                heading="TPOT p50 ms",
                symbol="TPOT",
                column="tpot_p50_s",
                scale=1e3,
                centre=False,
            ),
        ),
    )


TABLE = Table(name="itl", title="ITL (gap between chunks) and TPOT", order=50, build=build)
