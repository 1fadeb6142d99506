"""What one experiment got of a night."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.nights.expected import Expected
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
    not_reached: dict[int, Expected] = field(default_factory=dict)
    refused: str = ""

    @property
    def blocks(self) -> int:
        """Return how many blocks it has, those of a second stage after those of the first."""
        return 1 + max((boot.block for boot in self.plan.every_boot), default=-1)

    def waits(self, block: int) -> bool:
        """Tell whether a block is of a second stage that waits for blocks not reached."""
        is_later = self.plan.second is not None and block >= self.plan.second_block
        return is_later and bool(self.not_reached)
