"""What a run still lacks of its stages, and when the second of them is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner.experiment.night import REFERENCE
from runner.plan import Plan, PlannedBoot, second_stage
from runner.plan.rows import cell_rows
from runner.plan.stages import smallest_kv_tokens
from runner.stored.store import FINISHED, Run


def missing_boots(plan: Plan, run: Run, *, retry_failed: bool) -> Iterator[PlannedBoot]:
    """Yield the boots of a plan that the run does not hold yet, in the plan's order."""
    kept = FINISHED - {"failed", "skipped"} if retry_failed else FINISHED
    done = {(row["cell_id"], row["boot"]) for row in run.boots() if row["outcome"] in kept}
    return (boot for boot in plan.boots if (boot.cell.cell_id, boot.boot) not in done)


def rows_of_stages(plan: Plan, second: Plan | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of `cells` of all stages that are known."""
    stages = [plan, *([second] if second is not None else [])]
    rows = (row for stage in stages for row in cell_rows(stage))
    yield from {row["cell_id"]: row for row in rows}.values()  # the pinned cell is in both


def frozen_stage(plan: Plan, run: Run) -> Plan | None:
    """Return the second stage of a run whose first has shown its KV capacity."""
    tokens = run.frozen_kv_tokens() if plan.second is not None else None
    return None if tokens is None else second_stage(plan, tokens)


def following(plan: Plan, run: Run) -> tuple[Plan | None, str]:
    """Return the second stage, or None and why it cannot begin; no reason where there is none.

    Its KV capacity is kept in the run the first time that the first stage is complete.
    """
    if plan.second is None:
        return None, ""
    if run.frozen_kv_tokens() is None:
        if any(missing_boots(plan, run, retry_failed=False)):
            return None, "not all boots of stage 1 are stored"
        labels = {cell.cell_id: cell.label for cell in plan.cells if cell.name != REFERENCE}
        tokens, why = smallest_kv_tokens(run.boots(), labels)
        if tokens is None:
            return None, why
        run.freeze_kv_tokens(tokens)
    return frozen_stage(plan, run), ""
