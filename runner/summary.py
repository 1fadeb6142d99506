"""How a run stands after an `exec`: what is stored, what failed, and the exit code of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.errors import DONE, FAILED
from runner.plan import Plan
from runner.stored.store import FINISHED, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """How a run stands after an `exec`.

    Attributes:
        folder: the experiment's results.
        run_id: the run.
        started: boots that this `exec` started.
        stored: boots of the plan that are stored.
        total: boots of the plan.
        unexpected: stored boots whose outcome is not the expected one.
        void_loads: loads whose figures are not shown and searches that were given up, but for those
            of a boot whose failure was expected: its end voids them.
        pending: why the second stage could not begin; empty where it did or where there is none.
    """

    folder: Path
    run_id: str
    started: int
    stored: int
    total: int
    unexpected: int
    void_loads: int
    pending: str = ""

    @property
    def exit_code(self) -> int:
        """Return 1 when something failed that was not expected, is void, or cannot begin."""
        return FAILED if self.unexpected or self.void_loads or self.pending else DONE

    @property
    def text(self) -> str:
        """Return it in one line."""
        stored = f"{self.stored} of {self.total} boots stored, {self.started} started now"
        failed = f"; {self.unexpected} failed, see What failed" if self.unexpected else ""
        void = f"; {self.void_loads} loads void, see their doubts" if self.void_loads else ""
        pending = f"; stage 2 could not begin: {self.pending}" if self.pending else ""
        return f"run {self.run_id}: {stored}{failed}{void}{pending}. Results: {self.folder}"


def summary_of(
    folder: Path, run: Run, stages: Sequence[Plan], started: int, pending: str
) -> Summary:
    """Return how a run stands.

    Args:
        folder: the experiment's results.
        run: the run.
        stages: the plans of its stages.
        started: boots that were started now.
        pending: why a stage could not begin; empty where none is waiting.
    """
    planned = {(boot.cell.cell_id, boot.boot) for stage in stages for boot in stage.boots}
    every = {(row["cell_id"], row["boot"]): row for row in run.boots()}
    last = {key: row for key, row in every.items() if key in planned}
    finished = [row for row in last.values() if row["outcome"] in FINISHED]
    return Summary(
        folder=folder,
        run_id=run.run_id,
        started=started,
        stored=len(finished),
        total=len(planned),
        unexpected=sum(not row["expected"] for row in finished),
        void_loads=run.void_loads(row for row in finished if not _is_answer(row)),
        pending=pending,
    )


def _is_answer(row: Mapping[str, Any]) -> bool:
    """Tell whether a boot failed as it was expected to."""
    return bool(row["outcome"] == "failed" and row["expected"])
