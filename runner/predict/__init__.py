"""One boot that is only simulated: no server, no sockets, the same rows.

The simulated engine's scheduler runs as an event simulation, so a boot takes a second instead of
its minutes. Its rows are marked as simulated, like those of a simulated engine that serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from engines import Fact
from engines.reading import Reader, Reading
from engines.sim.predict import Boot
from runner.boots import pages
from runner.boots.boot import Bench
from runner.boots.life import Failure, Life, fact_rows, row_of
from runner.boots.session import Session
from runner.plan.cells import SIMULATED_PROGRAM
from runner.predict.loads import Foretold
from runner.stored.store import Desk

_COMPILE_CACHE: Final = {True: "none", False: "warm", None: "none"}


def foretell(bench: Bench, begun: Mapping[str, Any], desk: Desk) -> dict[str, Any]:
    """Simulate one boot and commit it; return its row in `boots`.

    Args:
        bench: the boot and what it needs; nothing of it is started.
        begun: the columns known before it starts.
        desk: where it keeps what it finishes.
    """
    desk.begin(begun)
    boot = Boot(bench.launch.argv[len(SIMULATED_PROGRAM) :])
    life = Life(phase="ready")
    if boot.ready_s is not None:
        life.seconds["ready_s"] = boot.ready_s
        life.facts += _pages(bench, boot)
        life.phase = "load"
        _loads(bench, boot, desk, life)
        life.seconds["load_s"] = boot.now_s
    life.reading = _read(bench.planned.cell.engine.name, boot.log)
    if not boot.alive:
        life.failure = _failure(life.phase, life.reading)
    return _commit(bench, begun, life, desk)


def _loads(bench: Bench, boot: Boot, desk: Desk, life: Life) -> None:
    session = Session(
        server=Foretold(bench=bench, boot=boot),
        seed=bench.plan.experiment.seed,
        boot=bench.planned.boot,
        desk=desk,
        life=life,
        tell=bench.tell,
    )
    session.go(bench.plan.loads)


def _pages(bench: Bench, boot: Boot) -> list[Fact]:
    """Return what its pages state before any load."""

    def answer(request: httpx.Request) -> httpx.Response:
        status, body = boot.page(request.url.path, dict(request.url.params))
        return httpx.Response(status, content=body)

    caller = pages.Caller(transport=httpx.MockTransport(answer))
    found = pages.stated(bench.planned.cell.engine, "http://simulated", caller)
    return [fact for fact in found.facts if fact.source != "load"]


def _read(engine: str, log: list[str]) -> Reading:
    reader = Reader(engine)
    reader.feed("".join(f"{line}\n" for line in log).encode())
    return reader.close()


def _failure(phase: str, reading: Reading) -> Failure:
    said = "the simulated engine would end here"
    return Failure(phase=reading.phase or phase, cause=reading.cause or "unknown", message=said)


def _commit(bench: Bench, begun: Mapping[str, Any], life: Life, desk: Desk) -> dict[str, Any]:
    cell, clean = bench.planned.cell, bench.redactor.text
    asked = cell.keys.compile == "none" if cell.keys.compile else None
    is_cold = (cell.section.simulate or {}).get("cold", asked)
    row = {
        **begun,
        "compile_cache": _COMPILE_CACHE[is_cold],
        **row_of(life, cell.keys.expect, clean),
    }
    facts = fact_rows(life.all_facts, desk.key.columns, lambda line: None, clean)
    capacity = [{**found, **desk.key.columns} for found in life.capacities]
    desk.commit(row, {"facts": facts, "capacity": capacity}, bench.redactor)
    return row
