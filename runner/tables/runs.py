"""Which runs there are, their cells, and which cell a label names in each."""

from __future__ import annotations

from typing import Any

from runner.stored.frames import Results, once
from runner.tables.kinds import Key
from runner.tables.measured import records


@once
def runs_of(results: Results) -> list[tuple[str, str]]:
    """Return each experiment and run in the order of a report."""
    pairs = results.cells[["experiment", "run"]].drop_duplicates()
    return [(str(experiment), str(run)) for experiment, run in pairs.itertuples(index=False)]


def labels_of(results: Results, experiment: str, run: str) -> dict[str, Key]:
    """Return the key of each cell of a run by its own label."""
    own = cells_by_run(results).get((experiment, run), {})
    return {str(cell["label"]): key for key, cell in own.items()}


@once
def cells_by_run(results: Results) -> dict[tuple[str, str], dict[Key, dict[str, Any]]]:
    """Return the row of each cell of each run."""
    found: dict[tuple[str, str], dict[Key, dict[str, Any]]] = {}
    for key, cell in cells_of(results).items():
        found.setdefault(key[:2], {})[key] = cell
    return found


@once
def cells_of(results: Results) -> dict[Key, dict[str, Any]]:
    """Return the row of each cell."""
    return {(row["experiment"], row["run"], row["cell_id"]): row for row in records(results.cells)}
