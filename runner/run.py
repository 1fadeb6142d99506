"""One `exec`: open or continue a run, boot what is missing, store every boot, say how it went."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.boots.gpu import Gpus, Nvml
from runner.boots.series import Series, client_of
from runner.errors import HostError
from runner.launchers import Launcher, Pulling
from runner.owners.clean import Finding, told
from runner.plan import Plan
from runner.plan.launch import models_folder
from runner.preflight import flag_check
from runner.preflight.build import Build, builds_of, make_models_folder
from runner.progress import Happening, Watch, unseen
from runner.secrets import Redactor
from runner.stages import following, frozen_stage, missing_boots, rows_of_stages
from runner.stored.lock import locked
from runner.stored.store import Run, Store
from runner.summary import Summary, summary_of
from runner.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPart:
    """Some blocks of one night's run.

    Attributes:
        night: name of the night.
        blocks: which blocks are run now.
    """

    night: str
    blocks: Container[int]

    def asks(self, stage: Plan | None) -> bool:
        """Tell whether some block of a stage is run now."""
        return stage is not None and any(boot.block in self.blocks for boot in stage.boots)


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
        tell = functools.partial(_note, watch, redactor)
        _fetch(plan, models, world, tell)
        pulling = Pulling(
            when=plan.experiment.pull, limit_s=plan.experiment.timeouts.pull_s, tell=tell
        )
        gpus = nvml.gpus() if nvml else Gpus()
        builds = builds_of(plan.cells, launchers, models, gpus, pulling)
        make_models_folder(plan.cells, models)
        for finding in world.sweep(frozenset(kinds)):
            refuse_shared_gpus(finding, builds)
            if finding.removed:
                tell(told(finding))
        if check_flags and "docker" in launchers:
            flag_check.check_flags(plan.cells, builds, launchers["docker"])
        night = part.night if part else None
        run = continued(store, plan, builds, fresh=fresh, night=night)
        run.recover(redactor)
        work = _Work(
            world=world,
            run=run,
            launchers=launchers,
            models=models,
            redactor=redactor,
            nvml=nvml,
            watch=watch,
            audit=audit,
            retry_failed=retry_failed,
            part=part,
        )
        run.put_cells(rows_of_stages(plan, frozen_stage(plan, run)))
        started = work.boot(plan, builds)
        second, pending = following(plan, run)
        if second is not None:
            watch(Happening(event="note", detail=f"stage 2: {run.frozen_kv_tokens()} KV tokens"))
            run.put_cells(rows_of_stages(plan, second))
            started += work.boot(second, builds_of(second.cells, launchers, models, gpus))
        known = second or plan.second
        stages = [plan, *([known] if known else [])]
        if part is not None and not part.asks(known):
            pending = ""  # the night has not come to it yet
        return summary_of(store.folder, run, stages, started, pending)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What the boots of every stage share; see `execute` and `Series`."""

    world: World
    run: Run
    launchers: Mapping[str, Launcher]
    models: Path
    redactor: Redactor
    nvml: Nvml | None
    watch: Watch
    audit: bool
    retry_failed: bool
    part: NightPart | None

    def boot(self, stage: Plan, builds: Mapping[str, Build]) -> int:
        """Boot what is missing of a stage; return how many boots that were."""
        missing = list(missing_boots(stage, self.run, retry_failed=self.retry_failed))
        done = len(stage.boots) - len(missing)
        if self.part is not None:
            missing = [boot for boot in missing if boot.block in self.part.blocks]
        measures = any(not boot.cell.offline for boot in missing)
        series = Series(
            plan=stage,
            run=self.run,
            builds=builds,
            launchers=self.launchers,
            models=self.models,
            redactor=self.redactor,
            nvml=self.nvml,
            floor=self.world.floor(client_of(stage)) if measures else None,
            watch=self.watch,
            audit=self.audit,
            night=self.part.night if self.part else None,
            done=done,
        )
        series.go(missing)
        return series.started


def _fetch(plan: Plan, models: Path, world: World, tell: Callable[[str], None]) -> None:
    """Bring the models that containers need into the cache, outside of every boot's times."""
    if not any(cell.fetches_model for cell in plan.cells):
        return
    from runner.preflight.fetch import Hub, fetch_all

    limit_s = plan.experiment.timeouts.fetch_s
    fetch_all(
        plan.cells, Hub(models=models, environment=world.environment, limit_s=limit_s, tell=tell)
    )


def _note(watch: Watch, redactor: Redactor, said: str) -> None:
    watch(Happening(event="note", detail=redactor.text(said)))


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
