"""One `exec`: open or continue a run, boot what is missing, store every boot, say how it went."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import flag_check
from runner.clean import Finding, told
from runner.errors import DONE, FAILED, HostError
from runner.gpu import Gpus
from runner.lock import locked
from runner.plan import Plan, PlannedBoot
from runner.plan.launch import models_folder
from runner.plan.rows import cell_rows
from runner.preflight import Build, builds_of, make_models_folder
from runner.progress import Happening, Watch, unseen
from runner.secrets import Redactor
from runner.series import Series, client_of
from runner.store import FINISHED, Run, Store
from runner.world import World


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
        void_loads: loads whose figures are not shown, but for those of a boot whose failure was
            expected: its end voids them.
    """

    folder: Path
    run_id: str
    started: int
    stored: int
    total: int
    unexpected: int
    void_loads: int

    @property
    def exit_code(self) -> int:
        """Return 1 when something failed that was not expected, or a load is void."""
        return FAILED if self.unexpected or self.void_loads else DONE

    @property
    def text(self) -> str:
        """Return it in one line."""
        stored = f"{self.stored} of {self.total} boots stored, {self.started} started now"
        failed = f"; {self.unexpected} failed, see What failed" if self.unexpected else ""
        void = f"; {self.void_loads} loads void, see their doubts" if self.void_loads else ""
        return f"run {self.run_id}: {stored}{failed}{void}. Results: {self.folder}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPart:
    """Some blocks of one night's run.

    Attributes:
        night: name of the night.
        blocks: which blocks are run now.
    """

    night: str
    blocks: Container[int]


def execute(
    plan: Plan,
    world: World,
    results: Path,
    *,
    watch: Watch = unseen,
    fresh: bool = False,
    retry_failed: bool = False,
    audit: bool = False,
    check_flags: bool = False,
    part: NightPart | None = None,
) -> Summary:
    """Do what is missing of a plan.

    Args:
        plan: what is asked.
        world: the edges: launchers, GPUs, environment.
        results: folder of all results.
        watch: is told what happens.
        fresh: open a new run even if one can be continued.
        retry_failed: repeat boots that failed, as new attempts.
        audit: hold every load against the wire, which needs CAP_NET_RAW.
        check_flags: first hold every cell's flags against its image's own help.
        part: only these blocks, in the run of a night, which no other `exec` goes on with.

    Raises:
        ExperimentError: `check_flags` found a flag that an image does not know.
        HostError: the environment does not allow it; finished boots are stored.
        KeyboardInterrupt: it was interrupted; what was measured is stored.
    """
    store = Store(results, plan.experiment.name)
    kinds: set[str] = {cell.launcher for cell in plan.cells}
    launchers = {kind: world.launcher(kind) for kind in sorted(kinds)}
    models = models_folder(plan.experiment.cache, world.environment)
    redactor = Redactor.of(
        (name for cell in plan.cells for name in cell.keys.secrets), world.environment
    )
    with locked(store.folder):
        nvml = world.nvml()
        _fetch(plan, models, world, lambda said: _note(watch, redactor.text(said)))
        builds = builds_of(plan.cells, launchers, models, nvml.gpus() if nvml else Gpus())
        make_models_folder(plan.cells, models)
        for finding in world.sweep(frozenset(kinds)):
            refuse_shared_gpus(finding, builds)
            if finding.removed:
                _note(watch, told(finding))
        if check_flags and "docker" in launchers:
            flag_check.check_flags(plan.cells, builds, launchers["docker"])
        night = part.night if part else None
        run = continued(store, plan, builds, fresh=fresh, night=night)
        run.recover(redactor)
        run.put_cells(cell_rows(plan))
        missing = list(missing_boots(plan, run, retry_failed=retry_failed))
        done = len(plan.boots) - len(missing)
        if part is not None:
            missing = [boot for boot in missing if boot.block in part.blocks]
        measures = any(not boot.cell.offline for boot in missing)
        floor = world.floor(client_of(plan)) if measures else None
        series = Series(
            plan=plan,
            run=run,
            builds=builds,
            launchers=launchers,
            models=models,
            redactor=redactor,
            nvml=nvml,
            floor=floor,
            watch=watch,
            audit=audit,
            night=night,
            done=done,
        )
        series.go(missing)
        return _summary(store, run, plan, started=series.started)


def _fetch(plan: Plan, models: Path, world: World, tell: Callable[[str], None]) -> None:
    """Bring the models that containers need into the cache, outside of every boot's times."""
    if not any(cell.fetches_model for cell in plan.cells):
        return
    from runner.fetch import Hub, fetch_all

    limit_s = plan.experiment.timeouts.fetch_s
    fetch_all(
        plan.cells, Hub(models=models, environment=world.environment, limit_s=limit_s, tell=tell)
    )


def _note(watch: Watch, said: str) -> None:
    watch(Happening(event="note", detail=said))


def continued(
    store: Store,
    plan: Plan,
    builds: Mapping[str, Build],
    *,
    fresh: bool = False,
    night: str | None = None,
) -> Run:
    """Return the run that this `exec` goes on with: same content, same builds; else a new one."""
    latest = None if fresh else store.latest(plan.content_id, night)
    text = plan.experiment.path.read_text(encoding="utf-8")
    if latest is not None:
        known = {row["cell_id"]: row["build_id"] for row in latest.boots()}
        if all(build == builds[cell].build_id for cell, build in known.items() if cell in builds):
            latest.note_file(text)
            return latest
    return store.new_run(plan.content_id, text, night)


def refuse_shared_gpus(finding: Finding, builds: Mapping[str, Build]) -> None:
    """Refuse to start on a GPU that another live runner uses.

    Raises:
        HostError: it does.
    """
    ours = {uuid for build in builds.values() for uuid in build.gpus.uuids}
    theirs = ours.intersection(finding.gpus) if isinstance(finding.gpus, tuple) else ours
    if finding.verdict != "dead" and finding.running and finding.gpus and theirs:
        raise HostError(
            f"{told(finding)}. It uses {', '.join(sorted(theirs))}: wait until it ends, or give"
            " other GPUs in `gpus`"
        )


def missing_boots(plan: Plan, run: Run, *, retry_failed: bool) -> Iterator[PlannedBoot]:
    """Yield the boots of a plan that the run does not hold yet, in the plan's order."""
    kept = FINISHED - {"failed"} if retry_failed else FINISHED
    done = {(row["cell_id"], row["boot"]) for row in run.boots() if row["outcome"] in kept}
    return (boot for boot in plan.boots if (boot.cell.cell_id, boot.boot) not in done)


def _summary(store: Store, run: Run, plan: Plan, *, started: int) -> Summary:
    cells = {cell.cell_id for cell in plan.cells}
    last = {
        (row["cell_id"], row["boot"]): row
        for row in run.boots()
        if row["cell_id"] in cells and 0 <= row["boot"] < plan.experiment.boots
    }
    finished = [row for row in last.values() if row["outcome"] in FINISHED]
    return Summary(
        folder=store.folder,
        run_id=run.run_id,
        started=started,
        stored=len(finished),
        total=len(plan.boots),
        unexpected=sum(not row["expected"] for row in finished),
        void_loads=run.void_loads(row for row in finished if not _is_answer(row)),
    )


def _is_answer(row: Mapping[str, Any]) -> bool:
    """Tell whether a boot failed as it was expected to."""
    return bool(row["outcome"] == "failed" and row["expected"])
