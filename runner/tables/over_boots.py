"""Values of loads over boots: every boot is shown, with their median and range.

The unit of replication is the boot: requests are never pooled over boots. Boots that are not of
one kind (`kinds`) have a row for each kind and no median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from runner.stats.drift import Drift, over_blocks
from runner.stats.interval import unequal_tails
from runner.stats.kv import covariate
from runner.stats.refusal import Refusal
from runner.stats.split import by_metric
from runner.stored.frames import Results
from runner.tables import Centre, Shown
from runner.tables.brackets import Values, centre, explained, extremes
from runner.tables.kinds import KV, Kinds, spans
from runner.tables.measured import by_load, kinds_by_cell, measured, values

Seen = dict[str, list[str]]
"""Name of a doubt -> what was seen."""

_MOST_FOR_SPLIT: Final = 100
"""The limits of a two-group split are simulated at each size: beyond this it costs seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure of a load.

    Attributes:
        heading: its name and unit in the table.
        symbol: a short name for its median and range.
        column: its column in `loads`.
        scale: from the stored unit to the shown one.
        fallback: the column shown instead, as a maximum, where requests are too few for a p99.
        centre: a median over boots stands beside it.
        timed: it comes of times, so a void load has none; else of answers, which stand.
    """

    heading: str
    symbol: str
    column: str
    scale: float = 1.0
    fallback: str | None = None
    centre: bool = True
    timed: bool = True


def over_boots(
    results: Results, metrics: tuple[Metric, ...], loads: pd.DataFrame | None = None
) -> Shown | None:
    """Return a row for each cell and load, or for each kind of its boots.

    The first metric is also looked at for two groups that no fact explains.

    Args:
        results: what is shown.
        metrics: the columns.
        loads: measured loads, with further columns; all by default.
    """
    loads = measured(results) if loads is None else loads
    if loads.empty:
        return None
    kinds = kinds_by_cell(results)
    rows: list[dict[str, Any]] = []
    doubts: Seen = {}
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for cell, load, boots in by_load(loads):
        found = doubts_of(boots)
        own = kinds[(boots.experiment.iloc[0], boots.run.iloc[0], boots.cell_id.iloc[0])]
        rows += _rows(cell, load, boots, own, metrics, found)
        sizes[own.many].append(len(boots))
        for name, seen in found.items():
            doubts.setdefault(name, []).extend(s for s in seen if s not in doubts[name])
    note = explained(alike=sizes[False], unlike=sizes[True])
    return Shown(frame=_without_empty(pd.DataFrame(rows)), notes=[note], doubts=doubts)


def doubts_of(boots: pd.DataFrame) -> Seen:
    """Return the doubts on these loads, with what was seen of each."""
    found: Seen = {}
    for entries in boots.doubts:
        for entry in entries if entries is not None else ():
            seen = found.setdefault(entry["name"], [])
            sentence = f"{boots.label.iloc[0]} {boots.load.iloc[0]}: {entry['sentence']}"
            if sentence not in seen:
                seen.append(sentence)
    if (boots.verdict != "void").sum() == 1:
        who = f"{boots.label.iloc[0]} {boots.load.iloc[0]}"
        found["single_boot"] = [f"{who}: one boot alone stands behind it"]
    return found


def _rows(
    cell: str,
    load: str,
    boots: pd.DataFrame,
    kinds: Kinds,
    metrics: tuple[Metric, ...],
    found: Seen,
) -> Iterator[dict[str, Any]]:
    """Yield one row, or one for each of a few kinds of boots; tell of doubts in `found`."""
    shown = {metric: _chosen(metric, boots, found) for metric in metrics}
    if kinds.several:
        found["several_kinds"] = [kinds.told]
    else:
        _look_for_groups(cell, load, boots, metrics[0], found)
        _look_for_drift(cell, load, boots, metrics[0], found)
    if kinds.many or not kinds.several:
        _look_at_tails(cell, load, boots, metrics, found)
    for told, own in _parted(boots, kinds):
        row: dict[str, Any] = {"cell": cell, "load": load, "boots": spans(list(own.boot))}
        row["kind"] = told or None
        for metric in metrics:
            over = values(own, shown[metric], metric.scale, timed=metric.timed)
            row[metric.heading] = over
            if metric.centre:
                row[f"median [range] {metric.symbol}"] = _bracketed(over, metric, kinds, found)
        yield row | {"doubts": ", ".join(found)}


def _parted(boots: pd.DataFrame, kinds: Kinds) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield what tells some boots from the others, and those boots; of many kinds all at once."""
    if kinds.many:
        yield f"{kinds.summed}{_room(boots, kinds)}", boots
        return
    for kind in kinds.kinds:
        own = boots[boots.boot.isin(kind.boots)]
        if not own.empty:
            yield kind.told, own


def _bracketed(over: Values, metric: Metric, kinds: Kinds, found: Seen) -> Centre | None:
    """Return what may stand beside every boot: a median, the range alone, or nothing."""
    if metric.fallback and "unequal_tails" in found:
        return None
    if kinds.many:
        return extremes(over)
    return None if kinds.several else centre(over)


def _room(boots: pd.DataFrame, kinds: Kinds) -> str:
    """Return that the kinds cannot matter at this load: KV alone differs, and all requests fit."""
    if set(kinds.ranges) != {KV} or (boots.level_kind != "concurrency").any():
        return ""
    tokens = (boots.input_tokens + boots.output_tokens) / boots.ok.where(boots.ok > 0)
    running = boots.max_running.fillna(boots.level)
    if tokens.isna().any() or boots.kv_tokens.isna().any():
        return ""
    asked = int(min(running.min(), boots.level.min()))
    each = zip(running, boots.level, boots.kv_tokens, tokens, strict=True)
    fit = {
        covariate(
            max_running=int(most),
            concurrency=int(level),
            kv_tokens=int(kv_tokens),
            input_tokens=round(mean),
            output_tokens=0,
        )
        for most, level, kv_tokens, mean in each
    }
    return f"; each holds the {asked} requests that run at once" if fit == {asked} else ""


def _chosen(metric: Metric, boots: pd.DataFrame, found: Seen) -> str:
    """Return the column that is shown: the maximum where no boot has requests for a p99."""
    is_void = boots.verdict == "void"
    if not metric.fallback or boots[metric.column][~is_void].notna().any():
        return metric.column
    if boots[metric.fallback][~is_void].notna().any():
        who = f"{boots.label.iloc[0]} {boots.load.iloc[0]}"
        seen = f"{who}: {metric.heading} is the maximum of under 100 values"
        found.setdefault("few_requests", []).append(seen)
        return metric.fallback
    return metric.column


def _look_for_groups(
    cell: str, load: str, boots: pd.DataFrame, metric: Metric, found: Seen
) -> None:
    said = two_groups([value for value in values(boots, metric.column) if value])
    if said:
        found["two_valued"] = [f"{cell} {load}: {metric.heading} shows {said}"]


def _look_for_drift(cell: str, load: str, boots: pd.DataFrame, metric: Metric, found: Seen) -> None:
    pairs = zip(boots.block, values(boots, metric.column), strict=True)
    known = [(float(block), value) for block, value in pairs if value]
    drift = over_blocks([block for block, _ in known], [value for _, value in known])
    if isinstance(drift, Drift) and drift.named:
        found["drift_over_blocks"] = [f"{cell} {load}: {metric.heading} moves by {drift}"]


def two_groups(figures: Sequence[float]) -> str:
    """Return the words of two groups that no fact explains; nothing where there are none."""
    if len(figures) > _MOST_FOR_SPLIT:
        return ""
    split = by_metric(figures)
    return "" if isinstance(split, Refusal) else str(split)


def _look_at_tails(
    cell: str, load: str, boots: pd.DataFrame, metrics: Sequence[Metric], found: Seen
) -> None:
    if not any(metric.fallback for metric in metrics):
        return
    counts = [
        int(ok)
        for ok, verdict in zip(boots.ok, boots.verdict, strict=True)
        if verdict != "void" and not pd.isna(ok)
    ]
    refused = unequal_tails(counts, counts)
    if refused is not None:
        found["unequal_tails"] = [f"{cell} {load}: {refused.reason}"]


def _without_empty(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without the columns that hold nothing: kinds, doubts, an unknown figure."""
    kept = ("cell", "load", "boots")
    empty = [n for n in frame.columns if n not in kept and all(map(_is_empty, frame[n]))]
    return frame.drop(columns=empty)


def _is_empty(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(inner is None for inner in value)
    return value is None or value == ""
