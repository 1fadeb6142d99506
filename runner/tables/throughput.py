"""Output tokens per second of each load: every boot, their median and range."""

from __future__ import annotations

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.over_boots import Metric, over_boots


def build(results: Results) -> Shown | None:
    """Show tokens and requests per second over the window from first send to last token."""
    return over_boots(
        results,
        (
            Metric(heading="output tok/s", symbol="tok/s", column="output_tokens_per_s"),
            Metric(heading="requests/s", symbol="req/s", column="requests_per_s", centre=False),
        ),
    )


TABLE = Table(name="throughput", title="Throughput", order=30, build=build)
