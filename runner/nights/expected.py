"""How long boots will take: as their cell's past boots did, else as past boots of its server did.

A server is an engine and image, however started: any experiment of the results folder tells of it.
Of a server that was never started a plan guesses, and the guess is multiplied for caution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

from runner.experiment.levels import Load
from runner.plan import Plan, PlannedBoot
from runner.plan.cells import Cell
from runner.plan.estimate import PACES, Speed, load_s, speed_of, startup_s
from runner.stored.frames import Results, results
from runner.tables.declared import declared
from runner.tables.measured import records

_START: Final = ("image_s", "create_s", "ready_s", "stop_s", "release_s")
PHASES: Final = (*_START, "load_s")
"""Columns of `boots` that make up its time."""
_RUNS: Final = 5
_BESIDE_S: Final = 3.0
"""Looking the machine over and storing, which no column holds."""
_CAUTION: Final = 1.5
"""What a guess is multiplied with; past boots need none, for the slowest of them counts."""
_KEYS: Final = ("experiment", "run", "cell_id")
_SERVER: Final = ("engine", "image", "launcher", "simulated", "gpus")

Server = tuple[str, str, str, Speed]
"""Engine, image, how it is started, and class of machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How long some boots will take at most, by what is known.

    Attributes:
        seconds: of all of them.
        basis: what that rests on.
    """

    seconds: float
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What complete boots of the last runs took, the slowest of each.

    Attributes:
        cell_s: by experiment and cell_id, all of a boot.
        start_s: by server, a boot without its loads.
        pace: by server, seconds of loads over those that a plan guesses for their requests, from
            runs whose loads all last as long as the server needs.
    """

    cell_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    start_s: Mapping[Server, float] = field(default_factory=dict)
    pace: Mapping[Server, float] = field(default_factory=dict)


def past(folder: Path) -> Past:
    """Return what boots took in the last runs of every experiment.

    Args:
        folder: all results; nothing is known where nothing was ever run.
    """
    runs = [
        path.stem
        for experiment in sorted(folder.glob("*/runs"))
        for path in sorted(experiment.glob("*.json"))[-_RUNS:]
    ]
    if not runs:
        return Past()
    return _past(results(folder, runs=runs, wanted=_is_wanted))


def _is_wanted(table: str, column: str) -> bool:
    needed = {*_KEYS, *_SERVER, *PHASES, "outcome", "boot", "label", "name", "inapplicable"}
    return column in needed | {"rehearsal", "load", "search"}


def _past(found: Results) -> Past:
    boots = found.boots[(found.boots.outcome == "done") & (found.boots.boot >= 0)]
    own = [name for name in boots.columns if name not in _SERVER]
    cells = found.cells[[*_KEYS, *_SERVER]]
    rows: pd.DataFrame = boots[own].merge(cells, on=[*_KEYS])
    cell_s: dict[tuple[str, str], float] = {}
    start_s: dict[Server, float] = {}
    pace: dict[Server, float] = {}
    for row in records(rows):
        started, loaded = sum(row[name] or 0.0 for name in _START), row["load_s"] or 0.0
        _longest(cell_s, (row["experiment"], row["cell_id"]), started + loaded)
        server = _server_of(row)
        _longest(start_s, server, started)
        plans = declared(found, row["experiment"], row["run"]).plans.values()
        paced_s, given_s = _loads_s(plans, server[3])
        if paced_s and not given_s:
            _longest(pace, server, loaded / paced_s)
    return Past(cell_s=cell_s, start_s=start_s, pace=pace)


def _longest(kept: dict[Any, float], key: object, seconds: float) -> None:
    kept[key] = max(kept.get(key, 0.0), float(seconds))


def _server_of(row: Mapping[str, Any]) -> Server:
    speed: Speed = "simulated" if row["simulated"] else "gpu" if row["gpus"] else "cpu"
    return str(row["engine"]), str(row["image"] or ""), str(row["launcher"]), speed


def _loads_s(loads: Iterable[Load], speed: Speed) -> tuple[float, float]:
    """Return a plan's guess for loads that last as the server is fast, and for all others."""
    paced_s = given_s = 0.0
    for load in loads:
        takes_s = load_s(load, PACES[speed])
        if load.in_flight and load.duration_s is None:
            paced_s += takes_s
        else:
            given_s += takes_s
    return paced_s, given_s


def expected(boots: Iterable[PlannedBoot], plan: Plan, known: Past) -> Expected:
    """Return how long boots will take at most, by what is known, and what that rests on."""
    each = [_of_cell(boot.cell, plan, known) for boot in boots]
    bases = list(dict.fromkeys(basis for _, basis in each))
    return Expected(seconds=sum(took + _BESIDE_S for took, _ in each), basis=", ".join(bases))


def _of_cell(cell: Cell, plan: Plan, known: Past) -> tuple[float, str]:
    took = known.cell_s.get((plan.experiment.name, cell.cell_id))
    if took is not None:
        return took, "by its past boots"
    server = (cell.engine.name, cell.keys.image or "", str(cell.launcher), speed_of(cell))
    paced_s, given_s = _loads_s(plan.loads, server[3])
    if server not in known.start_s:
        said = f"a guess, with no boot of this {cell.engine.name} stored"
        return _CAUTION * (startup_s(cell) + paced_s + given_s), said
    loads_s = known.pace.get(server, _CAUTION) * paced_s + _CAUTION * given_s
    said = f"by other experiments' boots of this {cell.engine.name}"
    return known.start_s[server] + loads_s, said
