"""Ratios as cells of a table."""

from __future__ import annotations

from runner.stats.interval import Interval
from runner.stats.refusal import Refusal
from runner.tables import Centre


def centre_of(found: Interval | Refusal, blocks: int) -> Centre | None:
    """Return an interval as a cell of a table; None where there is none."""
    if isinstance(found, Refusal):
        return None
    return Centre(middle=found.centre, low=found.low, high=found.high, boots=blocks, interval=True)


def percent(share: float | None) -> str | None:
    """Return a share as `3 %`; what is over 1 says no more than that."""
    return None if share is None else f"{100 * share:.2g} %" if share < 1 else "over 100 %"
