"""The smallest difference that a plan can find, with its m. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from runner import workloads
from runner.experiment import Compare
from runner.experiment.aa import AGAIN
from runner.experiment.levels import Load
from runner.experiment.night import REFERENCE
from runner.experiment.pairs import Pair, pairs_of
from runner.plan import Plan
from runner.stats.design import Spread, ratio_sd, smallest_difference
from runner.stats.refusal import Refusal
from runner.stats.verdict import least_boots

_ASSUMED_SD: Final = 0.01
"""Spread of single boots where no past boot tells: a round number, and said to be one."""


def power_lines(plan: Plan, past: Spread | None = None) -> Iterator[str]:
    """Yield what the declared comparisons can find in 80 % of experiments.

    Args:
        plan: its boots, pairs and loads.
        past: spread of the log ratio of two boots in past results; None where there are none.
    """
    compare = plan.experiment.compare or Compare()
    pairs = declared_pairs(plan)
    loads = [load for load in plan.loads if _is_compared(load, compare)]
    m, boots = len(pairs) * len(loads), plan.experiment.boots
    if m == 0:
        return
    yield ""
    yield (
        f"What it can find in {compare.metric}: m = {m}, {_count(len(pairs), 'pair')} at"
        f" {_count(len(loads), 'load')}"
    )
    least = least_boots(m)
    if boots < least:
        yield f"  no verdict: {_count(boots, 'boot')} of each, and a verdict needs {least}"
    sd = past.sd if past else ratio_sd(_ASSUMED_SD)
    enough = max(boots, least)
    found = smallest_difference(enough, sd, m=m, least=least, looks=compare.looks)
    if not isinstance(found, Refusal):
        subject = "the smallest difference" if boots == enough else f"with {enough} boots"
        yield f"  {subject}: {100 * found.ratio:.2g} % in 80 % of cases, {_source(past)}"


def declared_pairs(plan: Plan) -> tuple[Pair, ...]:
    """Return the labels of each pair that is compared; pinned cells and twins are in none."""
    compare = plan.experiment.compare or Compare()
    cells = [*plan.cells, *(plan.second.cells if plan.second else ())]
    labels = [cell.label for cell in cells if cell.name not in {AGAIN, REFERENCE}]
    return pairs_of(labels, compare.pairs)


def _is_compared(load: Load, compare: Compare) -> bool:
    """Tell whether a load's figures are compared: no answers alone, no search of a level."""
    if compare.loads:
        return load.load in compare.loads
    return load.range is None and workloads.get(load.workload).timed


def _source(past: Spread | None) -> str:
    if past is None:
        return (
            f"if boots vary by {100 * _ASSUMED_SD:g} %, which nobody has measured here; half that"
            " finds half as much"
        )
    return f"for the ratio of two boots varies by {100 * past.sd:.2g} % in {past.source}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
