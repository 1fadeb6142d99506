"""What a server says of its queue and its KV cache while it is loaded, read once a second.

A thread of the runner's own process reads the engine's metrics page; the measuring processes know
nothing of it. A page that takes long is asked for less often, so that reading stays cheap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any, Final

PERIOD_S: Final = 1.0
_COST_RATIO: Final = 0.1
"""Reading the page takes no more than this share of the time."""
MOST_READINGS: Final = 20_000
"""Readings of one load that are kept: five hours of them."""
TOTALS: Final = ("preemptions", "output_tokens", "draft_tokens", "accepted_tokens")
"""Running totals, told as growth since the load's first reading."""
GAUGES: Final = ("running", "waiting", "kv_used_ratio", "accepted_ratio")

Counters = Mapping[str, float]


@contextmanager
def watched(
    counters: Callable[[], Counters], *, period_s: float = PERIOD_S
) -> Iterator[list[dict[str, Any]]]:
    """Read counters again and again while the block runs; the list grows by a row for each.

    Args:
        counters: reads the page; empty where there is none, and then nothing is read again.
        period_s: from one reading to the next.
    """
    rows: list[dict[str, Any]] = []
    over = Event()
    thread = Thread(target=_watch, args=(counters, rows, over, period_s), name="metrics")
    thread.daemon = True
    thread.start()
    try:
        yield rows
    finally:
        over.set()
        thread.join()


def _watch(
    counters: Callable[[], Counters], rows: list[dict[str, Any]], over: Event, period_s: float
) -> None:
    first: Counters | None = None
    while len(rows) < MOST_READINGS:
        began_s = time.monotonic()
        found = counters()
        took_s = time.monotonic() - began_s
        if found:
            first = found if first is None else first
            rows.append(reading(found, first, datetime.now(UTC)))
        if over.wait(max(period_s - took_s, took_s * (1 / _COST_RATIO - 1))):
            return


def reading(now: Counters, first: Counters, at: datetime) -> dict[str, Any]:
    """Return one reading as a row of `metrics`; what the page does not tell is None."""
    grown = {name: now[name] - first[name] for name in TOTALS if name in now and name in first}
    gauges = {name: now.get(name) for name in GAUGES}
    drafted = grown.get("draft_tokens")
    if gauges["accepted_ratio"] is None and drafted:
        gauges["accepted_ratio"] = grown.get("accepted_tokens", 0.0) / drafted
    return {"at": at, **gauges, **{name: grown.get(name) for name in TOTALS}}
