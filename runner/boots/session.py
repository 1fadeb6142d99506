"""The loads of one boot, in order: each is measured and kept; a search chooses its own levels."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from runner.boots import pages, search
from runner.boots.asks import Draw
from runner.boots.life import Failure, Life
from runner.boots.measure import Client, Live, Measured, measure
from runner.boots.search import Answer, Next, Probe
from runner.experiment.levels import Load
from runner.load.patience import Cut
from runner.stored.store import Desk

_DYING_S: Final = 2.0
_IDLE_S: Final = 10.0
_TRIES: Final = 3
"""Probes of one search that may be without a verdict before it is given up."""


class Server(Protocol):
    """Whoever takes the loads: one that is served, or one that is only simulated."""

    def measure(self, load: Load, draw: Draw, spool: Path) -> Measured | None:
        """Run one load; None when nothing of it is to be kept, for the server ended."""

    def died(self) -> str | None:
        """Return how it ended, None while it lives."""

    def await_end(self) -> None:
        """Give it, after requests that failed, a moment to be known as dead."""

    def await_idle(self) -> None:
        """Let it end what it still does after too much, as far as it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A live server and the client that measures it."""

    live: Live
    client: Client

    def measure(self, load: Load, draw: Draw, spool: Path) -> Measured:
        """Run one load."""
        return measure(load, draw, self.live, client=self.client, spool=spool)

    def died(self) -> str | None:
        """Return how it ended, None while it lives."""
        return self.live.died()

    def await_end(self) -> None:
        """Wait until it is known as dead, or two seconds."""
        deadline_s = time.monotonic() + _DYING_S
        while self.live.died() is None and time.monotonic() < deadline_s:
            time.sleep(0.05)

    def await_idle(self) -> None:
        """Wait until its page names no request, or ten seconds."""
        deadline_s = time.monotonic() + _IDLE_S
        while time.monotonic() < deadline_s:
            now = pages.counters(self.live.engine, self.live.control_url)
            if not now.get("running", 0) and not now.get("waiting", 0):
                return
            time.sleep(0.2)


@dataclass(kw_only=True)
class Session:
    """What one server is asked, one load after the other.

    Attributes:
        server: who is asked.
        seed: of the experiment.
        boot: number of the server life.
        desk: where finished loads are kept.
        life: what is known of the boot.
        tell: says what happens now.
        order: loads done so far.
    """

    server: Server
    seed: int
    boot: int
    desk: Desk
    life: Life
    tell: Callable[[str], None]
    order: int = field(default=0, init=False)

    def go(self, loads: tuple[Load, ...]) -> None:
        """Run loads until one cannot be finished."""
        for load in loads:
            for repeat in range(load.repeats):
                done = self._search(load, repeat) if load.range else self._one(load, repeat)
                if done is None:
                    return

    def _one(self, load: Load, repeat: int) -> Measured | None:
        """Measure one load and keep it; None when nothing more can be asked of the server."""
        self.tell(f"{load.load}" + (f" #{repeat + 1}" if load.repeats > 1 else ""))
        draw = Draw(seed=self.seed, boot=self.boot, load=load.load, repeat=repeat)
        spool = self.desk.folder / f"spool-{self.order}"
        done = self.server.measure(load, draw, spool)
        if done is None:
            return None
        keys = self.desk.key.columns
        row = {**done.row, **keys, "order": self.order}
        self.life.metrics += [{**reading, **keys} for reading in done.metrics]
        self.desk.add_load(row, ({**request, **keys} for request in done.requests))
        shutil.rmtree(spool, ignore_errors=True)
        self.order += 1
        if done.row["ok"] < done.row["requests"] and done.row.get("met") is not False:
            self.server.await_end()
        if done.aborted is not None:
            self.life.failure = _failure(done.aborted, done.cut)
            return None
        return None if self.server.died() else done

    def _search(self, load: Load, repeat: int) -> Answer | None:
        """Probe levels until the search has its answer; None when the server ended before."""
        within, probes, served, unclear = load.range, list[Probe](), dict[float, Any](), 0
        if within is None:
            return None
        while isinstance(found := search.step(probes, within), Next):
            done = self._one(load.at(found.level, len(probes) + unclear), repeat)
            if done is None:
                return None
            if (met := done.row["met"]) is None:
                unclear += 1
                if unclear < _TRIES:
                    continue
                found = search.given_up(probes)
                break
            served[found.level] = done.row["requests_per_s"]
            probes.append(Probe(level=found.level, met=met))
            if not met:
                self.server.await_idle()
        row = _capacity(load, found, served)
        self.life.capacities.append({**row, "repeat": repeat, "probes": len(probes) + unclear})
        return found


def _failure(aborted: str, cut: Cut | None) -> Failure:
    """Return why a boot whose load was ended early is not done."""
    phase, cause = (cut.phase, cut.cause) if cut else ("load", "load_failed")
    return Failure(phase=phase, cause=cause, message=aborted)


def _capacity(load: Load, found: Answer, served: Mapping[float, Any]) -> dict[str, Any]:
    """Return what a search found as columns of `capacity`."""
    asked = load.keys.search
    return {
        "load": load.load,
        "level_kind": load.level_kind,
        "level": found.level,
        "missed_level": found.missed,
        "requests_per_s": None if found.level is None else served[found.level],
        "why": found.why,
        "slo": asked.slo.told if asked else None,
    }
