"""Time to first token of each load: every boot, their median and range."""

from __future__ import annotations

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.over_boots import Metric, over_boots


def build(results: Results) -> Shown | None:
    """Show TTFT: the first chunk that carries a token, from the send (closed loop) or due time."""
    return over_boots(
        results,
        (
            Metric(heading="p50 ms", symbol="p50", column="ttft_p50_s", scale=1e3),
            Metric(
                heading="p99 ms",
                symbol="p99",
                column="ttft_p99_s",
                scale=1e3,
                fallback="ttft_max_s",
            ),
        ),
    )


TABLE = Table(
    name="ttft", title="TTFT, from the send (closed loop) or the due time", order=40, build=build
)
