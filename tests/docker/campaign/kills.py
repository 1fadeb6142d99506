"""`kill -9` of the runner, at random moments and at every step of the store, then `exec` again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from runner.stored.frames import Results, results
from tests.docker.campaign.bed import Bed

BOOTS = 10
"""Most boots of a run killed at random: it takes many kills before it is whole."""
KILLS_A_BOOT = 2
KEYS = ["run", "cell_id", "boot", "attempt"]
LOAD = [*KEYS, "load", "repeat"]
FINISHED = ("done", "failed", "skipped")

Finished = set[tuple[Any, ...]]


@dataclass(kw_only=True)
class Killed:
    """How a series of kills went.

    Attributes:
        kills: how many there were.
        runs: runs that were brought to their end in spite of them.
        wrong: everything that was not as it must be; empty when all was.
    """

    kills: int = 0
    runs: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        bad = "; ".join(self.wrong[:5]) or "0 lost, 0 duplicate rows, 0 leftovers"
        return f"{self.kills} kills, {self.runs} runs ended: {bad}"


def at_random(folder: Path, image: str, *, kills: int, seed: int) -> Killed:
    """Kill runs at random moments, each brought to its end by further `exec`s.

    Args:
        folder: an empty folder.
        image: an image that holds the simulated engine.
        kills: how many there shall be.
        seed: what the moments are drawn from.
    """
    draw, killed, window_s = random.Random(seed), Killed(), _window_s(folder / "whole", image)
    boots = max(1, min(BOOTS, kills // KILLS_A_BOOT))
    while killed.kills < kills:
        bed = _bed(folder / f"run-{killed.runs}", image, boots)
        for _ in _killed_until_done(bed, killed, lambda: draw.uniform(0, window_s), kills):
            pass
    return killed


def at_every_step(folder: Path, image: str, *, stride: int = 1) -> Killed:
    """Kill one run after the other at each step of the store, `stride` steps apart.

    Each run is killed at its step, in further `exec`s at the same step again, and then ends.
    """
    killed, step = Killed(), 1
    while True:
        bed = _bed(folder / f"step-{step}", image, 1)
        code = bed.exec(step=step).wait()
        if code != -9:
            _end(bed, killed, set(), code)
            return killed
        killed.kills += 1
        seen = _checked(bed, killed, set())
        if bed.exec(step=step).wait() == -9:
            killed.kills += 1
            seen = _checked(bed, killed, seen)
        _end(bed, killed, seen, bed.exec().wait())
        step += stride


def _bed(folder: Path, image: str, boots: int) -> Bed:
    return Bed(folder=folder, image=image, keys={"boots": boots})


def _window_s(folder: Path, image: str) -> float:
    """Return how long `exec` takes here for one boot and its tables: a moment is drawn from that.

    A kill in it stores a boot or none, so that one run takes many kills, in all its boots.
    """
    _bed(folder / "first", image, 1).exec().wait()  # also waits for what is imported once
    began = time.monotonic()
    _bed(folder / "timed", image, 1).exec().wait()
    return time.monotonic() - began


def _killed_until_done(
    bed: Bed, killed: Killed, moment_s: Callable[[], float], most: int
) -> Iterator[None]:
    """Kill and start again until the run has ended; check what is there after each kill."""
    seen: Finished = set()
    while killed.kills < most:
        under_way = bed.exec()
        under_way.process.join(moment_s())
        ended = under_way.process.exitcode is not None
        under_way.kill()
        if ended:
            break
        killed.kills += 1
        seen = _checked(bed, killed, seen)
        yield
    _end(bed, killed, seen, bed.exec().wait())


def _checked(bed: Bed, killed: Killed, seen: Finished) -> Finished:
    """Look at what a kill left; return the boots that are finished."""
    read = results(bed.stored) if any(bed.stored.glob("boots/*/*.parquet")) else None
    if read is None or read.boots.empty:
        found: Finished = set()
    else:
        killed.wrong += [f"{bed.name}: {fault}" for fault in _rows(read)]
        found = _finished(read.boots)
    killed.wrong += [f"{bed.name}: lost {boot}" for boot in sorted(seen - found)]
    if len(left := bed.containers()) > 1:
        killed.wrong.append(f"{bed.name}: {len(left)} containers at once")
    return found


def _end(bed: Bed, killed: Killed, seen: Finished, code: int) -> None:
    """Check a run whose last `exec` ended by itself."""
    killed.runs += 1
    _checked(bed, killed, seen)
    boots = results(bed.stored).boots
    done, asked = boots[boots.outcome == "done"], int(bed.keys["boots"])
    faults = {
        f"exit code {code}": code not in (0, 1),
        f"{len(done)} of {asked} boots done": len(done) != asked,
        f"{boots.run.nunique()} runs": boots.run.nunique() != 1,
        f"containers {bed.containers()}": bool(bed.containers()),
        f"processes {bed.processes()}": bool(_lasting(bed)),
        f"half files {[path.name for path in bed.drafts()]}": bool(bed.drafts()),
        f"other outcomes {set(boots.outcome)}": not set(boots.outcome) <= {"done", "interrupted"},
    }
    killed.wrong += [f"{bed.name}: {fault}" for fault, true in faults.items() if true]


def _lasting(bed: Bed) -> list[str]:
    """Return the processes that are still there a moment later: dying takes one."""
    deadline_s = time.monotonic() + 5
    while (left := bed.processes()) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    return left


def _rows(read: Results) -> Iterator[str]:
    """Yield what is wrong with the rows that are stored."""
    for name, frame, keys in (
        ("boots", read.boots, KEYS),
        ("loads", read.loads, LOAD),
        ("requests", read.requests, [*LOAD, "request", "warmup"]),
    ):
        if frame.duplicated(keys).any():
            yield f"{name} are there twice"
    if read.boots[read.boots.outcome.isin(FINISHED)].duplicated(KEYS[:3]).any():
        yield "a finished boot was repeated"
    if read.unreadable:
        yield f"unreadable {[path.name for path in read.unreadable]}"
    held = read.requests[~read.requests.warmup.astype(bool)].groupby(LOAD).size()
    for _, load in read.loads.iterrows():
        if held.get(tuple(load[LOAD]), 0) != load.requests:
            yield f"{load.load} of boot {load.boot} has lost requests"


def _finished(boots: pd.DataFrame) -> Finished:
    kept = boots[boots.outcome.isin(FINISHED)]
    return set(kept[KEYS].itertuples(index=False, name=None))
