"""How long boots will take: as long as their cell's past boots took, else as a plan guesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from runner.plan import Plan, PlannedBoot
from runner.plan.estimate import PACES, load_s, speed_of, startup_s
from runner.stored.frames import results

PHASES: Final = ("image_s", "create_s", "ready_s", "load_s", "stop_s", "release_s")
"""Columns of `boots` that make up its time."""
_RUNS: Final = 5
_BESIDE_S: Final = 3.0
"""Looking the machine over and storing, which no column holds."""
_CAUTION: Final = 1.5
"""What a guess is multiplied with; past boots need none, for the slowest of them counts."""


def past_s(folder: Path) -> dict[str, float]:
    """Return the seconds of the slowest complete boot of each cell in its experiment's last runs.

    Args:
        folder: results of one experiment; nothing is known where it was never run.
    """
    runs = sorted(path.stem for path in (folder / "runs").glob("*.json"))[-_RUNS:]
    if not runs:
        return {}
    columns = {"cell_id", "outcome", "boot", *PHASES}
    boots = results(folder, runs=runs, wanted=lambda table, column: column in columns).boots
    done = boots[(boots.outcome == "done") & (boots.boot >= 0)]
    took = done[list(PHASES)].sum(axis=1).groupby(done.cell_id).max()
    return {str(cell_id): float(seconds) for cell_id, seconds in took.items()}


def expected_s(boots: Iterable[PlannedBoot], plan: Plan, past: Mapping[str, float]) -> float:
    """Return the seconds that boots will take at most, by what is known."""
    return sum(past.get(boot.cell.cell_id, _guess_s(boot, plan)) + _BESIDE_S for boot in boots)


def _guess_s(boot: PlannedBoot, plan: Plan) -> float:
    pace: Any = PACES[speed_of(boot.cell)]
    loads = sum(load_s(load, pace) for load in plan.loads)
    return _CAUTION * (startup_s(boot.cell) + loads)
