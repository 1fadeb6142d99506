"""The rows of `cells`: what each cell asks, as written and as resolved. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from engines.observing import resolved
from runner.plan import Plan
from runner.plan.cells import Cell


def cell_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row of `cells` for each cell, the inapplicable ones last with their reasons."""
    for cell in plan.cells:
        yield _cell_row(cell, (), rehearsal=plan.experiment.rehearsal)
    for entry in plan.inapplicable:
        yield _cell_row(entry.cell, entry.reasons, rehearsal=plan.experiment.rehearsal)


def _cell_row(cell: Cell, reasons: tuple[str, ...], *, rehearsal: bool) -> dict[str, Any]:
    served = cell.served("HOST", cell.engine.port)
    arguments, expect = cell.engine.arguments(served), cell.keys.expect
    kept = {"compile": cell.keys.compile} if cell.keys.compile else {}
    words = {name: resolved(cell.engine, served, name) for name in served.settings}
    return {
        "cell_id": cell.cell_id,
        "label": cell.label,
        "name": cell.name,
        "stage": cell.stage or None,
        "engine": cell.engine.name,
        "launcher": cell.launcher,
        "image": cell.keys.image,
        "model": cell.keys.model,
        "settings": json.dumps(cell.settings | kept, sort_keys=True),
        "resolved": json.dumps(words),
        "flags": list(arguments.argv),
        "env": json.dumps({**arguments.env, **cell.keys.env}, sort_keys=True),
        "secrets": list(cell.keys.secrets),
        "gpus": cell.gpus,
        "simulated": cell.simulated,
        "rehearsal": rehearsal,
        "inapplicable": list(reasons),
        "expected_outcome": expect.outcome if expect else None,
        "expected_cause": expect.cause if expect else None,
    }
