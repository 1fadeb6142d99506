"""Which runs there are, their cells, and which cell a label names in each."""

from __future__ import annotations

from typing import Any

from runner.stored.frames import Results
from runner.tables.kinds import Key
from runner.tables.over_boots import records


def runs_of(results: Results) -> list[tuple[str, str]]:
    """Return each experiment and run in the order of a report."""
    pairs = results.cells[["experiment", "run"]].drop_duplicates()
    return [(str(experiment), str(run)) for experiment, run in pairs.itertuples(index=False)]


def labels_of(results: Results, experiment: str, run: str) -> dict[str, Key]:
    """Return the key of each cell of a run by its own label."""
    cells = results.cells[(results.cells.experiment == experiment) & (results.cells.run == run)]
    return {
        str(label): (experiment, run, str(cell_id))
        for label, cell_id in zip(cells.label, cells.cell_id, strict=True)
    }


def cells_of(results: Results) -> dict[Key, dict[str, Any]]:
    """Return the row of each cell."""
    return {(row["experiment"], row["run"], row["cell_id"]): row for row in records(results.cells)}
