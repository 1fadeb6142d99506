"""Two stages beside each other: every engine as configured, and all with one KV capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, Final

import pandas as pd

from runner.stats.interval import Interval, ratio
from runner.stored.frames import Results
from runner.tables import Centre, Shown, Table
from runner.tables.brackets import Values
from runner.tables.declared import declared
from runner.tables.headings import HEADINGS
from runner.tables.measured import by_load, kinds_by_cell, measured, values
from runner.tables.over_boots import Seen, doubts_of

_NOTE: Final = (
    "ratio: of geometric means, with its 95 % interval by a paired t over blocks. All boots of the"
    " first stage ran before any of the second, so what changed between them on the machine is in"
    " the ratio of stages, and not in the ratio of engines within one."
)
Side = Mapping[str, pd.DataFrame]
"""Boots of one load by the stage that they belong to."""


def build(results: Results) -> Shown | None:
    """Show KV tokens and the metric of each cell and load, in both stages, with their ratio."""
    staged = _staged(results)
    if staged.empty:
        return None
    rows: list[dict[str, Any]] = []
    above: list[str] = []
    doubts: Seen = {}
    for (experiment, run), own in staged.groupby(["experiment", "run"], sort=False):
        metric = declared(results, str(experiment), str(run)).compare.metric
        stages = list(dict.fromkeys(str(stage) for stage in own.stage))
        sides: dict[tuple[str, str], dict[str, pd.DataFrame]] = {}
        for _, load, boots in by_load(own):
            cell = str(boots.label.iloc[0]).removesuffix(f" stage={boots.stage.iloc[0]}")
            sides.setdefault((cell, load), {})[str(boots.stage.iloc[0])] = boots
        for (cell, load), side in sides.items():
            found = _doubts(side)
            rows.append(
                _row(cell, load, side, stages, metric) | {"doubts": ", ".join(found) or None}
            )
            for name, seen in found.items():
                doubts.setdefault(name, []).extend(seen)
        above += _engines(sides, stages, metric)
    frame = pd.DataFrame(rows)
    return Shown(frame=frame, above=above, notes=[_NOTE], doubts=doubts)


def _staged(results: Results) -> pd.DataFrame:
    """Return the measured loads of experiments with stages, with the stage of each."""
    cells = results.cells[["experiment", "run", "cell_id", "stage"]]
    keys = ["experiment", "run", "cell_id"]
    loads: pd.DataFrame = measured(results).merge(cells, on=keys)
    loads = loads[loads.stage.notna()].copy()
    kinds = kinds_by_cell(results)
    owners = zip(*(loads[key] for key in keys), strict=True)
    loads["several_kinds"] = [kinds[owner].several for owner in owners]
    return loads


def _row(cell: str, load: str, side: Side, stages: list[str], metric: str) -> dict[str, Any]:
    row: dict[str, Any] = {"cell": cell, "load": load}
    for stage in stages:
        row[f"KV tokens {stage}"] = _kv_tokens(side[stage]) if stage in side else None
    heading, scale = HEADINGS[metric]
    for stage in stages:
        row[f"{heading} {stage}"] = values(side[stage], metric, scale) if stage in side else None
    if len(stages) == len(side) == 2:
        first, later = (side[stage] for stage in stages)
        row[f"ratio [95 %] {stages[1]} / {stages[0]}"] = _ratio(later, first, metric)
    return row


def _kv_tokens(boots: pd.DataFrame) -> Values:
    return tuple(None if pd.isna(tokens) else int(tokens) for tokens in boots.kv_tokens)


def _engines(
    sides: Mapping[tuple[str, str], Side], stages: list[str], metric: str
) -> Iterator[str]:
    """Yield the gap between each two cells at each load, stage by stage."""
    cells = list(dict.fromkeys(cell for cell, _ in sides))
    loads = list(dict.fromkeys(load for _, load in sides))
    for ours, theirs in combinations(cells, 2):
        for load in loads:
            said = [
                f"{_told(sides, ours, theirs, load, stage, metric)} {stage}" for stage in stages
            ]
            yield f"{load}: {HEADINGS[metric][0]} of {ours} over {theirs} is {' and '.join(said)}."


def _told(
    sides: Mapping[tuple[str, str], Side],
    ours: str,
    theirs: str,
    load: str,
    stage: str,
    metric: str,
) -> str:
    pair = [sides.get((cell, load), {}).get(stage) for cell in (ours, theirs)]
    found = None if pair[0] is None or pair[1] is None else _ratio(pair[0], pair[1], metric)
    if found is None:
        return "unknown (boots of several kinds, or under 2 complete blocks)"
    return f"{found.middle:.3f} [{found.low:.3f} - {found.high:.3f}]"


def _ratio(ours: pd.DataFrame, theirs: pd.DataFrame, metric: str) -> Centre | None:
    """Return the ratio of two cells over the blocks that both have.

    None of fewer than two, or where the boots of a side are of several kinds: no mean is theirs.
    """
    if ours.several_kinds.any() or theirs.several_kinds.any():
        return None
    mine, other = _by_block(ours, metric), _by_block(theirs, metric)
    blocks = sorted(mine.keys() & other.keys())
    found = ratio([mine[block] for block in blocks], [other[block] for block in blocks])
    if not isinstance(found, Interval):
        return None
    return Centre(
        middle=found.centre, low=found.low, high=found.high, boots=len(blocks), interval=True
    )


def _by_block(boots: pd.DataFrame, metric: str) -> dict[int, float]:
    known = zip(boots.block, values(boots, metric), strict=True)
    return {int(block): value for block, value in known if value}


def _doubts(side: Side) -> Seen:
    """Return the doubts of a cell's loads in both stages."""
    found: Seen = {}
    for boots in side.values():
        for name, seen in doubts_of(boots).items():
            found.setdefault(name, []).extend(seen)
    return found


TABLE = Table(
    name="kv_matched", title="As configured, and with one KV capacity", order=16, build=build
)
