"""What one experiment got of a night."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.plan import Plan
from runner.summary import Summary


@dataclass(kw_only=True)
class Share:
    """One experiment's share of a night.

    Attributes:
        plan: what it does.
        summary: how its run stands; None when it was not opened.
        started: boots that were started now.
        not_reached: blocks that would not have finished in time, with what they would have taken.
        refused: why the environment did not allow it; empty otherwise.
    """

    plan: Plan
    summary: Summary | None = None
    started: int = 0
    not_reached: dict[int, float] = field(default_factory=dict)
    refused: str = ""
