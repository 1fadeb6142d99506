"""Where a start's time goes: first and later starts, cold and warm, never averaged together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pandas as pd

from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.brackets import Values, centre
from runner.tables.kinds import KEY, spans
from runner.tables.measured import labelled

_COLUMNS: Final = {"create s": "create_s", "ready s": "ready_s"}
_FACTS: Final = {
    "weights s": "weights_load_s",
    "compile s": "compile_s",
    "profile s": "profile_s",
    "graphs s": "graph_capture_s",
    "engine init s": "engine_init_s",
}
"""Heading -> fact; parts of the time until ready, by the server's own word."""
_END: Final = {"stop s": "stop_s", "release s": "release_s"}
_CACHES: Final = {"cold": "cold", "warm": "warm", "none": "nothing kept"}
_NOTE: Final = (
    "first: the first start of a cell in its run (or the priming one before it), which may also"
    " read weights that no memory holds yet. cold, warm: what its compile cache held; nothing kept:"
    " no folder outlives a start. Parts that a server states may overlap: they do not add up to"
    " ready, which is from the start until a token came. More than one start: median [range]."
)


def build(results: Results) -> Shown | None:
    """Show the seconds of each kind of start of each cell."""
    ready = results.boots[results.boots.ready_s.notna() & (results.boots.outcome == "done")]
    if ready.empty:
        return None
    stated = _stated(results)
    rows: list[dict[str, Any]] = []
    cold: list[str] = []
    boots = labelled(ready, results).sort_values(["place", "boot", "attempt"], kind="stable")
    for _, own in boots.groupby("place", sort=False):
        rows += _rows(own, stated)
        first = own[(own.boot == 0) & (own.compile_cache == "cold")]
        if len(first) and len(own) > len(first):
            cold.append(f"{own.label.iloc[0]} boot 0: it compiled what later boots found")
    frame = pd.DataFrame(rows)
    empty = [name for name in frame.columns if frame[name].isna().all()]
    doubts = {"first_boot_cold": cold} if cold else {}
    return Shown(frame=frame.drop(columns=empty), notes=[_NOTE], doubts=doubts, keys=2)


Stated = Mapping[tuple[Any, ...], Mapping[str, float]]
"""Keys of a boot -> fact -> seconds, the slowest that any part of the server stated."""


def _stated(results: Results) -> Stated:
    facts = results.facts[results.facts.name.isin(_FACTS.values())]
    seconds = pd.to_numeric(facts.value, errors="coerce")
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    columns = [facts[name] for name in (*KEY, "boot", "attempt", "name")]
    for *key, name, value in zip(*columns, seconds, strict=True):
        if not pd.isna(value):
            own = found.setdefault(tuple(key), {})
            own[name] = max(own.get(name, 0.0), float(value))
    return found


def _rows(own: pd.DataFrame, stated: Stated) -> Iterator[dict[str, Any]]:
    starts: dict[str, list[int]] = {}
    caches = own.compile_cache.fillna("none")
    for place, (boot, cache) in enumerate(zip(own.boot, caches, strict=True)):
        when = "first" if boot < 0 or (boot == 0 and -1 not in set(own.boot)) else "later"
        starts.setdefault(f"{when}, {_CACHES.get(cache, cache)}", []).append(place)
    for kind, places in starts.items():
        boots = own.iloc[places]
        keys = [tuple(row) for row in boots[[*KEY, "boot", "attempt"]].itertuples(index=False)]
        row: dict[str, Any] = {
            "cell": boots.label.iloc[0],
            "start": kind,
            "boots": _numbers([int(boot) for boot in boots.boot]),
        }
        row |= {head: centre(_of(boots, column)) for head, column in _COLUMNS.items()}
        row["each ready s"] = _of(boots, "ready_s") if len(boots) > 1 else None
        for head, fact in _FACTS.items():
            row[head] = centre(tuple(stated.get(key, {}).get(fact) for key in keys))
        yield row | {head: centre(_of(boots, column)) for head, column in _END.items()}


def _numbers(boots: list[int]) -> str:
    named = ["priming"] * (min(boots) < 0)
    rest = [boot for boot in boots if boot >= 0]
    return ", ".join([*named, spans(rest)] if rest else named)


def _of(boots: pd.DataFrame, column: str) -> Values:
    return tuple(None if pd.isna(value) else float(value) for value in boots[column])


TABLE = Table(name="phases", title="Where the time of a start goes", order=12, build=build)
