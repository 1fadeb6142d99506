"""One boot: start a server, wait until it serves, read what it decided, load it, end it.

Whatever happens in a boot becomes its row: an engine that dies is an outcome, not an exception.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from engines.reading import Reader, Reading
from runner.boots import guard, pages
from runner.boots.drift import (
    doubts_about,
    doubts_about_kv,
    doubts_about_pages,
    doubts_about_pin,
    told_by,
)
from runner.boots.growing import GrowingLog
from runner.boots.guard import Guard
from runner.boots.life import Failure, Life, fact_rows, key_facts, row_of
from runner.boots.measure import Client, Live
from runner.boots.ready import wait_until_ready
from runner.boots.session import Served, Session
from runner.doubts import doubt
from runner.errors import HostError
from runner.experiment import Timeouts
from runner.launchers import Exit, Launch, Launcher, LaunchError, Server
from runner.load import Target
from runner.load.floor import Floor
from runner.plan import Plan, PlannedBoot
from runner.preflight.build import Build
from runner.secrets import Redactor
from runner.stored.store import Desk

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What one boot needs.

    Attributes:
        plan: the plan it belongs to.
        planned: which boot.
        build: what its cell became.
        launcher: starts its server.
        launch: the server to start.
        client: the measuring client.
        redactor: takes secrets out of what is kept.
        guard: keeps an eye on its GPUs.
        tell: says what happens now.
        port_floor: measures what the client adds through a published port.
    """

    plan: Plan
    planned: PlannedBoot
    build: Build
    launcher: Launcher
    launch: Launch
    client: Client
    redactor: Redactor
    guard: Guard
    tell: Callable[[str], None]
    port_floor: Callable[[], Floor | None] = lambda: None

    @property
    def timeouts(self) -> Timeouts:
        """Return the longest that each phase may take."""
        return self.plan.experiment.timeouts


def live(bench: Bench, begun: dict[str, Any], desk: Desk) -> dict[str, Any]:
    """Run one boot to its end and commit it; return its row in `boots`.

    Args:
        bench: the boot and what it needs.
        begun: the columns known before it starts.
        desk: where it keeps what it finishes.

    Raises:
        KeyboardInterrupt: the run was interrupted; the boot is committed as such before.
        HostError: the results could not be written, or the GPU is not idle, or not released.
    """
    desk.begin(begun)
    life = Life()
    server: Server | None = None
    row: dict[str, Any] = {}
    came_to_an_end = False
    try:
        server = _start(bench, desk, life)
        if server is not None:
            _serve(bench, server, desk, life)
        came_to_an_end = True
    finally:
        if not came_to_an_end:
            life.failure = Failure.interrupted(life.phase)
        _stop(bench, server, desk, life)
        if life.way == "published" and life.failure is None:
            begun = begun | floor_columns(bench.port_floor())
        row = _commit(bench, begun, server, desk, life)
    return row


def _start(bench: Bench, desk: Desk, life: Life) -> Server | None:
    bench.tell("starts")
    life.phase = "create"
    life.doubts += bench.guard.before()
    try:
        with life.timing("create_s"):
            return bench.launcher.start(bench.launch, desk.log)
    except LaunchError as error:
        life.failure = Failure(phase=error.phase, cause=error.cause, message=str(error))
        return None


def _serve(bench: Bench, server: Server, desk: Desk, life: Life) -> None:
    cell = bench.planned.cell
    life.phase = "ready"
    bench.tell("waits until it serves")
    with life.timing("ready_s"):
        readiness = wait_until_ready(
            server,
            engine=cell.engine,
            model=cell.served_name,
            timeout_s=bench.timeouts.ready_s,
            log=GrowingLog(desk.log, cell.engine.name),
        )
    if readiness.cause is not None:
        life.failure = Failure(phase="ready", cause=readiness.cause, message=readiness.message)
        del life.seconds["ready_s"]
        return
    ready_ns = time.monotonic_ns()
    life.way = server.way
    before = pages.stated(cell.engine, server.control_url)
    if readiness.unsaid:
        said = "it generates, but its log does not say that it is ready"
        life.doubts.append(doubt("ready_unsaid", cell.label, said))
    life.phase = "load"
    with life.timing("load_s"), bench.guard.sampler() as sampler:
        _loads(bench, server, desk, life, ready_ns)
    life.samples = tuple(sampler.samples)
    life.doubts += guard.doubts_of(life.samples)
    living = server.exited() is None
    after = pages.stated(cell.engine, server.control_url) if living else None
    life.facts += told_by(before, after)
    life.doubts += doubts_about_pages(before, after)


def _loads(bench: Bench, server: Server, desk: Desk, life: Life, ready_ns: int) -> None:
    if bench.planned.boot < 0:
        return
    cell = bench.planned.cell
    target = Target(
        host=server.load_host,
        port=server.load_port,
        path=cell.engine.completions_path,
        way=server.way,
    )
    on = Live(
        engine=cell.engine,
        model=cell.served_name,
        control_url=server.control_url,
        target=target,
        vocabulary=bench.build.vocabulary,
        ready_ns=ready_ns,
        absent_cached_tokens=None if cell.launcher == "attach" else 0,
        version=cell.version,
        died=lambda: _death(server.exited()),
    )
    session = Session(
        server=Served(live=on, client=bench.client),
        seed=bench.plan.experiment.seed,
        boot=bench.planned.boot,
        desk=desk,
        life=life,
        tell=bench.tell,
    )
    session.go(bench.plan.loads)


def _stop(bench: Bench, server: Server | None, desk: Desk, life: Life) -> None:
    """Read the log up to here, then end the server: what a planned stop prints is no failure."""
    if server is not None:
        life.exit = server.exited()
        if life.exit is not None and life.failure is None:
            said = _death(life.exit) or "the server ended by itself"
            life.failure = Failure(phase=life.phase, cause="exited", message=said)
    log_bytes = desk.log.stat().st_size if desk.log.exists() else 0
    if server is not None:
        _end(bench, server, life)
        if life.exit is not None:
            log_bytes = desk.log.stat().st_size
    life.reading = read_log(desk.log, bench.planned.cell.engine.name, log_bytes)
    _diagnose(life)
    if life.held is not None and life.failure is None:
        said = f"the GPU's memory is not released: {life.held}"
        life.failure = Failure(phase="release", cause="stuck", message=said)


def _end(bench: Bench, server: Server, life: Life) -> None:
    """End the server, and wait until its GPUs are released."""
    bench.tell("stops")
    grace_s = bench.timeouts.stop_s
    with life.timing("stop_s"):
        ended = server.stop(grace_s)
        server.remove()
    if ended.forced:
        said = f"it, or a process of it, lived on {grace_s:g} s after SIGTERM, and was killed"
        life.doubts.append(doubt("stop_forced", bench.planned.cell.label, said))
    with life.timing("release_s"):
        life.held = bench.guard.after()


def _diagnose(life: Life) -> None:
    """Let the log's own words name the cause where the server ended by itself."""
    failure, reading = life.failure, life.reading
    if failure is None or failure.outcome != "failed" or reading is None:
        return
    if life.exit is not None and life.exit.removed:
        life.failure = failure.because("removed")
    elif life.exit is not None and life.exit.oom_killed:
        life.failure = failure.because("oom_killed")
    elif reading.cause is not None and reading.cause != "unknown":
        life.failure = failure.because(reading.cause, reading.phase)
    elif reading.cause == "unknown" and life.exit is not None:
        # an exception nobody knows says more than the exit code: SGLang ends itself by SIGKILL
        life.failure = failure.because("unknown", reading.phase)
    elif life.exit is not None and life.exit.daemon_lost:
        life.failure = failure.because("daemon_lost")
    elif life.exit is not None and life.exit.code in {137, -9}:
        life.failure = failure.because("killed")
    elif life.exit is not None and life.exit.code in {126, 127}:
        life.failure = failure.because("launch_failed")


def _commit(
    bench: Bench, begun: dict[str, Any], server: Server | None, desk: Desk, life: Life
) -> dict[str, Any]:
    cell, clean = bench.planned.cell, bench.redactor.text
    ready = "ready_s" in life.seconds
    life.doubts += doubts_about(cell.engine, life.all_facts, ready=ready)
    memory = cell.keys.memory
    pinned = memory.kv_tokens if memory is not None else None
    life.doubts += doubts_about_kv(bench.build.config, life.all_facts, capped=pinned is not None)
    life.doubts += doubts_about_pin(pinned, key_facts(life.all_facts).get("kv_tokens"))
    row = {**begun, **row_of(life, cell.keys.expect, clean)}
    at_s = server.seconds_of_line if server is not None else lambda line: None
    facts = fact_rows(life.all_facts, desk.key.columns, at_s, clean)
    samples = guard.rows_of(life.samples, desk.key.columns)
    capacity = [{**found, **desk.key.columns} for found in life.capacities]
    tables = {"facts": facts, "gpu": samples, "capacity": capacity, "metrics": life.metrics}
    desk.commit(row, tables, bench.redactor)
    if life.held is not None:
        raise HostError(
            f"the GPU's memory is not released {bench.timeouts.release_s:g} s after the server"
            f" ended: {life.held}. Find who holds it with nvidia-smi; then run the same exec again"
        )
    return row


def read_log(path: Path, engine: str | None, size_bytes: int) -> Reading:
    """Return what the first `size_bytes` of a log file say."""
    reader = Reader(engine)
    if path.exists():
        with path.open("rb") as log:
            left = size_bytes
            while left > 0 and (block := log.read(min(left, _BLOCK_BYTES))):
                reader.feed(block)
                left -= len(block)
    return reader.close()


def floor_columns(floor: Floor | None) -> dict[str, Any]:
    """Return the client's floor as columns of `boots`; null where it is not known."""
    names = [f"floor_{known.name}" for known in fields(Floor)]
    return dict(zip(names, astuple(floor), strict=True)) if floor else dict.fromkeys(names)


def _death(how: Exit | None) -> str | None:
    if how is None:
        return None
    if how.removed:
        return "the server was removed by someone else"
    return f"the server ended by itself with exit code {how.code}"
