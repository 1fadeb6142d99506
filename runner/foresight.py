"""What past boots of an experiment say of its next ones: their spread, and the cheapest plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.experiment import Compare
from runner.plan import Plan
from runner.plan.power import declared_pairs
from runner.stats.design import Spread, past_spread
from runner.stats.interval import pairs
from runner.stats.refusal import Refusal
from runner.stored.frames import results
from runner.tables import variance
from runner.tables.columns import wanted
from runner.tables.samples import Samples, samples

_RUNS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is known before a plan begins.

    Attributes:
        spread: of the log ratio of two boots of a block; None where no run tells.
        plans: sentences: for each engine and load whose variances are known, the cheapest plan.
    """

    spread: Spread | None = None
    plans: tuple[str, ...] = ()


def past_of(plan: Plan, results_folder: Path) -> Past:
    """Return what the last runs of the same experiment say; nothing where there are none."""
    folder = results_folder / plan.experiment.name
    runs = sorted(path.stem for path in (folder / "runs").glob("*.json"))[-_RUNS:]
    if not runs:
        return Past()
    found = results(folder, runs=runs, wanted=wanted)
    metric = (plan.experiment.compare or Compare()).metric
    by_cell = samples(found, metric)
    ratios = [_ratios(plan, load.load, run, by_cell) for run in runs for load in plan.loads]
    spread = past_spread(f"{len(runs)} earlier runs", [one for each in ratios for one in each])
    shown = variance.build(found)
    plans = [] if shown is None else variance.plans(shown)
    known = None if isinstance(spread, Refusal) or spread.sd == 0 else spread
    return Past(spread=known, plans=tuple(dict.fromkeys(plans)))


def _ratios(plan: Plan, load: str, run: str, by_cell: Samples) -> Iterator[list[float]]:
    """Yield the ratios of each pair at a load, block by block, of one run."""
    ids = {cell.label: cell.cell_id for cell in plan.cells}
    for pair in declared_pairs(plan):
        if not all(label in ids for label in pair):  # a later stage: its cells are not known yet
            continue
        keys = [((plan.experiment.name, run, ids[label]), load) for label in pair]
        if all(key in by_cell for key in keys):
            ours, theirs = pairs(*(by_cell[key].by_block for key in keys))
            yield [one / other for one, other in zip(ours, theirs, strict=True)]
