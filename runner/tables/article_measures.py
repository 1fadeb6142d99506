"""What the article calls its quantities, found in our rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from runner.stored.frames import Results
from runner.tables import interference, prefix, structured
from runner.tables.derived import Derive, derived
from runner.tables.kinds import Key
from runner.tables.measured import measured, values

_COLUMNS: Final = {
    "output_tokens_per_s": ("output_tokens_per_s", 1.0),
    "ttft_p50_ms": ("ttft_p50_s", 1e3),
    "itl_p99_ms": ("itl_p99_s", 1e3),
}
_DERIVED: Final[dict[str, tuple[tuple[str, ...], Derive, str]]] = {
    "victim_itl_max_ms": (interference.WORKLOADS, interference.figures, "largest_inside_s"),
    "injected_ttft_ms": (interference.WORKLOADS, interference.figures, "injected_ttft_s"),
    "ttft_first_ms": (prefix.WORKLOADS, prefix.figures, "ttft_first_s"),
    "ttft_later_ms": (prefix.WORKLOADS, prefix.figures, "ttft_later_s"),
}
_BOOTS: Final = {"kv_tokens": "kv_tokens", "kv_tokens_seen": "kv_tokens"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A quantity of one cell.

    Attributes:
        values: one for each boot.
        load: id of the load it is of; None for a quantity of boots.
    """

    values: tuple[float | None, ...]
    load: str | None = None


def found_of(
    results: Results, measure: str, level: int | None, key: Key, boots: pd.DataFrame
) -> Iterator[Found]:
    """Yield a quantity of one cell, of each load that has it.

    Args:
        results: ours.
        measure: its name in the article's file.
        level: concurrency; None where the load has none.
        key: the cell.
        boots: its complete boots.
    """
    if measure in _COLUMNS:
        column, scale = _COLUMNS[measure]
        yield from _of_loads(_of(measured(results), key, "random", level), column, scale)
    elif measure in _DERIVED:
        workloads, derive, column = _DERIVED[measure]
        own = _of(derived(results, workloads, derive), key, None, level)
        yield from _of_loads(own, column, 1e3)
    elif measure in _BOOTS:
        yield Found(values=tuple(boots[_BOOTS[measure]].astype(float)))
    elif measure.startswith("ready_"):
        yield from _ready(boots, first=measure == "ready_first_s")
    elif measure == "constrained_over_free_ratio":
        yield from _structured(results, key, level)
    else:
        yield from _over(results, measure, key, level)


def _of(loads: pd.DataFrame, key: Key, workload: str | None, level: int | None) -> pd.DataFrame:
    own = loads[(loads.experiment == key[0]) & (loads.run == key[1]) & (loads.cell_id == key[2])]
    own = own[own.workload == workload] if workload else own
    return own if level is None else own[(own.level_kind == "concurrency") & (own.level == level)]


def _of_loads(loads: pd.DataFrame, column: str, scale: float) -> Iterator[Found]:
    for load, own in loads.groupby("load", sort=False):
        over = values(own, column, scale)
        if any(value is not None for value in over):
            yield Found(values=over, load=str(load))


def _ready(boots: pd.DataFrame, *, first: bool) -> Iterator[Found]:
    """Yield start to ready: of a first start that finds no compiled kernels, or of later ones."""
    is_cold = boots.compile_cache != "warm"
    own = boots[(boots.boot == 0) & is_cold if first else ~is_cold]
    if len(own):
        yield Found(values=tuple(own.ready_s.astype(float)))


def _structured(results: Results, key: Key, level: int | None) -> Iterator[Found]:
    loads = derived(results, structured.WORKLOADS, structured.figures)
    for _, own_level, each in structured.ratios(results, _of(loads, key, None, level)):
        if level is None or own_level == level:
            yield Found(values=each)


def _over(results: Results, measure: str, key: Key, level: int | None) -> Iterator[Found]:
    """Yield the ratio to the other engine's cell of the same run, block by block."""
    column, _, rest = measure.partition("_over_")
    other = rest.removesuffix("_ratio")
    loads = measured(results)
    ours = _of(loads, key, "random", level)
    partner = _partner(results, key, other)
    if partner is None:
        return
    theirs = _of(loads, (key[0], key[1], partner), "random", level)
    for load, own in ours.groupby("load", sort=False):
        pairs = own.merge(theirs[theirs.load == load], on="block", suffixes=("", "_theirs"))
        good = pairs[(pairs.verdict != "void") & (pairs.verdict_theirs != "void")]
        each = tuple(float(r) for r in good[column] / good[f"{column}_theirs"] if not pd.isna(r))
        if each:
            yield Found(values=each, load=str(load))


def _partner(results: Results, key: Key, engine: str) -> str | None:
    """Return the cell of another engine in the same run that is set most alike.

    Memory is left out: by a fraction the engines mean different things.
    """
    cells = results.cells[(results.cells.experiment == key[0]) & (results.cells.run == key[1])]
    settings = {
        (str(engine), str(cell_id)): json.loads(text or "{}") | {"memory": None}
        for engine, cell_id, text in zip(cells.engine, cells.cell_id, cells.settings, strict=True)
    }
    own = next(asked for (_, cell_id), asked in settings.items() if cell_id == key[2])

    def unlike(asked: dict[str, Any]) -> int:
        return sum(asked.get(name) != own.get(name) for name in {*asked, *own})

    theirs = {
        cell_id: unlike(asked) for (name, cell_id), asked in settings.items() if name == engine
    }
    return min(theirs, key=theirs.__getitem__, default=None)
