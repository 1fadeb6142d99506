"""One run as it is held against another: its figures, what was observed, what it became. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pandas as pd

from runner.experiment.night import REFERENCE
from runner.sides.alignment import Observed
from runner.stats.interval import Interval
from runner.stored.frames import Results
from runner.tables.aa import floors
from runner.tables.alignment import observed
from runner.tables.declared import declared
from runner.tables.kinds import KEY, Kinds
from runner.tables.measured import complete, kinds_by_cell, records
from runner.tables.runs import cells_of, runs_of
from runner.tables.samples import Sample, samples

BUILD: Final = {
    "image": "image_digest",
    "model build": "model_build",
    "driver": "driver",
    "version": "version",
}
"""What a cell became that no comparison judges, by column of `boots`."""
By = Literal["cell_id", "label"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run; a cell is known by what it asks or by its label, never by its run.

    Attributes:
        samples: by cell and load.
        kinds: kinds of boots of each cell.
        observed: what each cell was seen to be.
        build: parts of what each cell became, by name.
        asked: what decides the work of each load; a load that the run's file no longer tells is
            not there.
        reference: its pinned cell; None without one.
        floors: the A/A's interval at each load, where it has one.
    """

    samples: Mapping[tuple[str, str], Sample]
    kinds: Mapping[str, Kinds]
    observed: Mapping[str, Observed]
    build: Mapping[str, Mapping[str, str]]
    asked: Mapping[str, Mapping[str, Any]]
    reference: str | None
    floors: Mapping[str, Interval] = field(default_factory=dict)


def side_of(results: Results, metric: str, *, by: By = "cell_id") -> Side:
    """Return what one run holds, its cells known by what they ask or by their labels."""
    boots = complete(results)
    kinds = kinds_by_cell(results)
    cells = cells_of(results)
    name = {key: str(cell[by]) for key, cell in cells.items()}
    groups: Any = boots.groupby(KEY)
    pinned = [name[key] for key, cell in cells.items() if cell["name"] == REFERENCE]
    return Side(
        samples={(name[key], load): one for (key, load), one in samples(results, metric).items()},
        kinds={name[key]: one for key, one in kinds.items()},
        observed={name[key]: one for key, one in observed(results).items()},
        build={name[key]: _built(own) for key, own in groups},
        asked=asked(results),
        reference=pinned[0] if pinned else None,
        floors=_floors(results, metric),
    )


def _floors(results: Results, metric: str) -> dict[str, Interval]:
    [(experiment, run)] = runs_of(results) or [("", "")]
    return floors(results, experiment, run, metric)


def asked(results: Results) -> dict[str, Mapping[str, Any]]:
    """Return what decides the work of each load of one run, by its file as it was."""
    [(experiment, run)] = runs_of(results) or [("", "")]
    return {load: plan.asked for load, plan in declared(results, experiment, run).plans.items()}


def _built(boots: pd.DataFrame) -> dict[str, str]:
    rows = records(boots)
    return {
        name: ", ".join(dict.fromkeys(str(row[column] or "unknown")[:19] for row in rows))
        for name, column in BUILD.items()
    }
