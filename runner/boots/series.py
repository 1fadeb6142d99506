"""The boots of one `exec`: each is spelled out, lived, timed and told of."""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.boots.boot import Bench, floor_columns, live
from runner.boots.gpu import Nvml, levels
from runner.boots.guard import Guard
from runner.boots.life import skipped
from runner.boots.measure import Client
from runner.boots.published import published_floor
from runner.launchers import Launcher
from runner.launchers.process import free_port
from runner.load.floor import Floor
from runner.load.patience import Patience
from runner.load.verdict import Limits
from runner.owners.owner import here, labels
from runner.plan import Plan, PlannedBoot
from runner.plan.cells import Cell
from runner.plan.dominated import dominating
from runner.plan.launch import Circumstances, launch_of
from runner.predict import foretell
from runner.preflight import machine
from runner.preflight.build import Build
from runner.progress import Happening, Watch
from runner.secrets import Redactor
from runner.stored.store import Run


@dataclass(kw_only=True)
class Series:
    """The boots of one `exec`, one after the other.

    Attributes:
        plan: the plan they belong to.
        run: the run they are stored in.
        builds: what each cell became, by `cell_id`.
        launchers: by kind.
        models: the Hugging Face home of this machine.
        redactor: takes secrets out of what is kept.
        nvml: the GPUs; None where nobody can tell.
        floor: what the client adds by itself; None when nothing is started.
        watch: is told what happens.
        done: boots of the plan that are stored.
        audit: hold every load against the wire.
        night: the night they belong to; None outside of any.
        started: boots started so far, priming ones too.
        seconds: how long each of them took.
        primed: cells whose compile folder was filled now.
        port_floors: what the client adds through a published port, by image.
    """

    plan: Plan
    run: Run
    builds: Mapping[str, Build]
    launchers: Mapping[str, Launcher]
    models: Path
    redactor: Redactor
    nvml: Nvml | None
    floor: Floor | None
    watch: Watch
    done: int
    audit: bool = False
    night: str | None = None
    started: int = 0
    seconds: list[float] = field(default_factory=list)
    primed: set[str] = field(default_factory=set)
    port_floors: dict[str, Floor | None] = field(default_factory=dict)
    levels_bytes: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        uuids = {uuid for build in self.builds.values() for uuid in build.gpus.uuids}
        self.levels_bytes = dict.fromkeys(uuids, 0) | levels(self.nvml, uuids)

    def go(self, missing: list[PlannedBoot]) -> None:
        """Run the missing boots, each cell primed before its first where that is asked."""
        self._tell("", f"run {self.run.run_id}", event="run", left=len(missing))
        for number, planned in enumerate(missing):
            left = len(missing) - number
            if self._skips(planned):
                self.done += 1
                continue
            if self._needs_priming(planned.cell):
                self._boot(replace(planned, boot=-1), left)
                self.primed.add(planned.cell.cell_id)
            self._boot(planned, left)
            self.done += 1

    def _skips(self, planned: PlannedBoot) -> bool:
        """Store a boot as skipped where one that needs less died of memory on the same GPUs."""
        if not self.plan.experiment.skip_dominated:
            return False
        cell, build = planned.cell, self.builds[planned.cell.cell_id]
        uuids = list(build.gpus.uuids)
        same = [row for row in self.run.boots() if (row["gpu_uuids"] or []) == uuids]
        cells = {one.cell_id: one for one in self.plan.cells}
        death = dominating(cell, cells, same)
        if death is None:
            return False
        desk = self.run.desk(cell.cell_id, planned.boot)
        now = self._circumstances(planned, build, desk.key.part)
        than = cells[death["cell_id"]].label
        row = {
            **self._begun(planned, build, desk.key.columns, now),
            **skipped(death["cause"], f"it needs more memory than {than}, which died of it"),
        }
        desk.commit(row, {}, self.redactor)
        subject = f"{cell.label} boot {planned.boot}"
        self._tell(subject, _told(row), event="ended", done=self.done + 1)
        return True

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
            client=client_of(self.plan, audit=self.audit),
            redactor=self.redactor,
            guard=Guard(
                nvml=self.nvml,
                levels_bytes={uuid: self.levels_bytes[uuid] for uuid in build.gpus.uuids},
                exclusive=self.plan.experiment.gpu_exclusive,
                release_s=self.plan.experiment.timeouts.release_s,
            ),
            tell=lambda detail: self._tell(subject, detail, left=left),
            port_floor=lambda: self._port_floor(bench),
        )
        self.started += 1
        lived = foretell if cell.offline else live
        row = lived(bench, self._begun(planned, build, desk.key.columns, now), desk)
        self.seconds.append(time.monotonic() - began)
        self._tell(subject, _told(row), event="ended", left=left - 1, done=self.done + 1)

    def _port_floor(self, bench: Bench) -> Floor | None:
        """Measure the client through a published port, once for each image."""
        image = bench.launch.image or ""
        if image not in self.port_floors:
            client = bench.client
            self.port_floors[image] = published_floor(
                bench.launcher, bench.launch, workers=client.workers, cpus=client.cpus
            )
        return self.port_floors[image]

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
            night=zlib.crc32(self.night.encode()) if self.night else 0,
            image=build.image_digest or None,
            revision=_commit(cell, build),
            models=self.models,
            compile_folder=self._compile_folder(cell),
            labels=owned,
            name=f"runner-{self.run.run_id}-{part}",
            writable=self.plan.experiment.cache.writable,
            gpus=build.gpus.uuids,
            timeouts=self.plan.experiment.timeouts,
        )

    def _begun(
        self, planned: PlannedBoot, build: Build, key: Mapping[str, Any], now: Circumstances
    ) -> dict[str, Any]:
        experiment, cell = self.plan.experiment, planned.cell
        return {
            **key,
            "block": planned.block,
            "order": planned.order,
            "night": self.night,
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
            **floor_columns(self.floor),
            "simulated": cell.simulated,
            "rehearsal": experiment.rehearsal,
        }

    def _compile_folder(self, cell: Cell) -> Path | None:
        cache = self.plan.experiment.cache
        if not cell.keeps_compiled(cache):
            return None
        build = self.builds[cell.cell_id]
        folder = Path(cache.folder).expanduser() / f"{cell.cell_id}-{build.build_id}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _needs_priming(self, cell: Cell) -> bool:
        is_cold = _compile_state(self._compile_folder(cell)) == "cold"
        return is_cold and cell.cell_id not in self.primed

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


def client_of(plan: Plan, *, audit: bool = False) -> Client:
    """Return the measuring client that an experiment asks for; `audit` holds it to the wire."""
    experiment, timeouts = plan.experiment, plan.experiment.timeouts
    return Client(
        workers=experiment.client.workers,
        cpus=machine.cores_of(experiment.client.cpus),
        request_timeout_s=timeouts.request_s,
        patience=Patience(
            silence_s=timeouts.silence_s, warmup_s=timeouts.warmup_s, load_s=timeouts.load_s
        ),
        audit=audit,
        limits=Limits(failed_ratio=experiment.limits.failed_requests_ratio),
    )


def _commit(cell: Cell, build: Build) -> str | None:
    """Return the commit to serve: the one that was fetched, which only containers are held to."""
    return build.model_build or None if cell.fetches_model else None


def _compile_state(folder: Path | None) -> str:
    if folder is None:
        return "none"
    return "warm" if any(folder.iterdir()) else "cold"


def _told(row: Mapping[str, Any]) -> str:
    if row["outcome"] == "done":
        kv_tokens = row.get("kv_tokens")
        known = f", {kv_tokens} KV tokens" if kv_tokens is not None else ""
        return f"done: ready after {row['ready_s']:.1f} s{known}"
    where = f"{row['phase']}, " if row["phase"] else ""
    return f"{row['outcome']}: {where}{row['cause']}: {row['message']}"
