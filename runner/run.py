"""One `exec`: open or continue a run, boot what is missing, store every boot, say how it went."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engines.observing import resolved
from runner import machine
from runner.boot import Bench, live
from runner.cells import Cell
from runner.clean import Finding, told
from runner.errors import DONE, FAILED, HostError
from runner.gpu import Gpus, Nvml, levels
from runner.guard import Guard
from runner.launch import Circumstances, launch_of, models_folder
from runner.launchers import Launcher
from runner.launchers.process import free_port
from runner.load.verdict import Limits
from runner.lock import locked
from runner.measure import Client
from runner.owner import here, labels
from runner.plan import Plan, PlannedBoot
from runner.preflight import Build, builds_of
from runner.progress import Happening, Watch, unseen
from runner.secrets import Redactor
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
        void_loads: loads whose figures are not shown.
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


def execute(
    plan: Plan,
    world: World,
    results: Path,
    *,
    watch: Watch = unseen,
    fresh: bool = False,
    retry_failed: bool = False,
) -> Summary:
    """Do what is missing of a plan.

    Args:
        plan: what is asked.
        world: the edges: launchers, GPUs, environment.
        results: folder of all results.
        watch: is told what happens.
        fresh: open a new run even if one can be continued.
        retry_failed: repeat boots that failed, as new attempts.

    Raises:
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
        builds = builds_of(plan.cells, launchers, models, nvml.gpus() if nvml else Gpus())
        for finding in world.sweep(frozenset(kinds)):
            refuse_shared_gpus(finding, builds)
            if finding.removed:
                watch(Happening(event="note", detail=told(finding)))
        run = continued(store, plan, builds, fresh=fresh)
        run.recover(redactor)
        run.put_cells(cell_rows(plan))
        missing = list(missing_boots(plan, run, retry_failed=retry_failed))
        series = _Series(
            plan=plan,
            run=run,
            builds=builds,
            launchers=launchers,
            models=models,
            redactor=redactor,
            nvml=nvml,
            watch=watch,
            done=len(plan.boots) - len(missing),
        )
        series.go(missing)
        return _summary(store, run, plan, started=series.started)


def continued(store: Store, plan: Plan, builds: Mapping[str, Build], *, fresh: bool) -> Run:
    """Return the run that this `exec` goes on with: same content, same builds; else a new one."""
    latest = None if fresh else store.latest(plan.content_id)
    if latest is not None:
        known = {row["cell_id"]: row["build_id"] for row in latest.boots()}
        if all(build == builds[cell].build_id for cell, build in known.items() if cell in builds):
            return latest
    return store.new_run(plan.content_id, plan.experiment.path.read_text(encoding="utf-8"))


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


def cell_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row of `cells` for each cell, the inapplicable ones last with their reasons."""
    for cell in plan.cells:
        yield _cell_row(cell, (), rehearsal=plan.experiment.rehearsal)
    for entry in plan.inapplicable:
        yield _cell_row(entry.cell, entry.reasons, rehearsal=plan.experiment.rehearsal)


def _cell_row(cell: Cell, reasons: tuple[str, ...], *, rehearsal: bool) -> dict[str, Any]:
    served = cell.served("HOST", cell.engine.port)
    arguments, expect = cell.engine.arguments(served), cell.keys.expect
    words = {name: resolved(cell.engine, served, name) for name in served.settings}
    return {
        "cell_id": cell.cell_id,
        "label": cell.label,
        "name": cell.name,
        "engine": cell.engine.name,
        "launcher": cell.launcher,
        "image": cell.keys.image,
        "model": cell.keys.model,
        "settings": json.dumps(cell.settings, sort_keys=True),
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


@dataclass(kw_only=True)
class _Series:
    """The boots of one `exec`, one after the other."""

    plan: Plan
    run: Run
    builds: Mapping[str, Build]
    launchers: Mapping[str, Launcher]
    models: Path
    redactor: Redactor
    nvml: Nvml | None
    watch: Watch
    done: int
    started: int = 0
    seconds: list[float] = field(default_factory=list)
    levels_bytes: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        uuids = {uuid for build in self.builds.values() for uuid in build.gpus.uuids}
        self.levels_bytes = dict.fromkeys(uuids, 0) | levels(self.nvml, uuids)

    def go(self, missing: list[PlannedBoot]) -> None:
        """Run the missing boots, each cell primed before its first where that is asked."""
        self._tell("", f"run {self.run.run_id}", event="run", left=len(missing))
        for number, planned in enumerate(missing):
            if self._needs_priming(planned.cell):
                self._boot(PlannedBoot(cell=planned.cell, boot=-1, order=planned.order), number)
            self._boot(planned, len(missing) - number)
            self.done += 1

    def _boot(self, planned: PlannedBoot, left: int) -> None:
        began = time.monotonic()
        subject = f"{planned.cell.label} boot {planned.boot}"
        cell, build = planned.cell, self.builds[planned.cell.cell_id]
        desk = self.run.desk(cell.cell_id, planned.boot)
        now = self._circumstances(planned, build, desk.key.part)
        bench = Bench(
            plan=self.plan,
            planned=planned,
            build=build,
            launcher=self.launchers[cell.launcher],
            launch=launch_of(cell, now),
            client=client_of(self.plan),
            redactor=self.redactor,
            guard=Guard(
                nvml=self.nvml,
                levels_bytes={uuid: self.levels_bytes[uuid] for uuid in build.gpus.uuids},
                exclusive=self.plan.experiment.gpu_exclusive,
                release_s=self.plan.experiment.timeouts.release_s,
            ),
            tell=lambda detail: self._tell(subject, detail, left=left),
        )
        self.started += 1
        row = live(bench, self._begun(planned, build, desk.key.columns, now), desk)
        self.seconds.append(time.monotonic() - began)
        self._tell(subject, _told(row), event="ended", left=left - 1, done=self.done + 1)

    def _circumstances(self, planned: PlannedBoot, build: Build, part: str) -> Circumstances:
        cell = planned.cell
        owned = labels(
            here(),
            experiment=self.plan.experiment.name,
            run=self.run.run_id,
            cell=cell.cell_id,
            boot=str(planned.boot),
        )
        return Circumstances(
            port=cell.engine.port if cell.launcher == "docker" else free_port(),
            boot=planned.boot,
            image=build.image_digest or None,
            revision=None,
            models=self.models,
            compile_folder=self._compile_folder(cell),
            labels=owned,
            name=f"runner-{self.run.run_id}-{part}",
            offline=bool(build.model_build),
            gpus=build.gpus.uuids,
        )

    def _begun(
        self, planned: PlannedBoot, build: Build, key: Mapping[str, Any], now: Circumstances
    ) -> dict[str, Any]:
        experiment, cell = self.plan.experiment, planned.cell
        return {
            **key,
            "block": planned.block,
            "order": planned.order,
            "build_id": build.build_id,
            "started_at": datetime.now(UTC),
            "compile_cache": _compile_state(now.compile_folder),
            "image_digest": build.image_digest or None,
            "model_build": build.model_build or None,
            "gpu_names": list(build.gpus.names),
            "gpu_uuids": list(build.gpus.uuids),
            "driver": build.gpus.driver or None,
            "host": machine.described(),
            "server_cpus": cell.keys.cpus,
            "client_cpus": experiment.client.cpus,
            "simulated": cell.simulated,
            "rehearsal": experiment.rehearsal,
        }

    def _compile_folder(self, cell: Cell) -> Path | None:
        cache = self.plan.experiment.cache
        if cache.compile == "none" or cell.launcher != "docker" or cell.simulated:
            return None
        build = self.builds[cell.cell_id]
        folder = Path(cache.folder).expanduser() / f"{cell.cell_id}-{build.build_id}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _needs_priming(self, cell: Cell) -> bool:
        return _compile_state(self._compile_folder(cell)) == "cold"

    def _tell(
        self,
        subject: str,
        detail: str,
        *,
        event: str = "phase",
        left: int = 0,
        done: int | None = None,
    ) -> None:
        left_s = statistics.median(self.seconds) * left if self.seconds else None
        self.watch(
            Happening(
                event=event,
                subject=subject,
                detail=detail,
                done=self.done if done is None else done,
                total=len(self.plan.boots),
                left_s=left_s,
            )
        )


def client_of(plan: Plan) -> Client:
    """Return the measuring client that an experiment asks for."""
    experiment = plan.experiment
    return Client(
        workers=experiment.client.workers,
        cpus=machine.cores_of(experiment.client.cpus),
        request_timeout_s=experiment.timeouts.request_s,
        load_timeout_s=experiment.timeouts.load_s,
        limits=Limits(failed_ratio=experiment.limits.failed_requests_ratio),
    )


def _compile_state(folder: Path | None) -> str:
    if folder is None:
        return "none"
    return "warm" if any(folder.iterdir()) else "cold"


def _told(row: Mapping[str, Any]) -> str:
    if row["outcome"] == "done":
        kv_tokens = row.get("kv_tokens")
        known = f", {kv_tokens} KV tokens" if kv_tokens is not None else ""
        return f"done: ready after {row['ready_s']:.1f} s{known}"
    return f"{row['outcome']}: {row['phase']}, {row['cause']}: {row['message']}"


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
        void_loads=run.void_loads(),
    )
