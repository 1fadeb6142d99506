"""The highest level that meets an SLO: every boot, its interval over boots, servers for a peak."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator
from typing import Any, Final

import pandas as pd
from pydantic import ValidationError

from runner.experiment.read import overlaid
from runner.experiment.searched import Capacity
from runner.figures.capacity import instances
from runner.stats.interval import geometric
from runner.stats.refusal import Refusal
from runner.stored.frames import Results, once
from runner.tables import Centre, Shown, Table
from runner.tables.brackets import Values
from runner.tables.kinds import spans
from runner.tables.measured import complete, labelled
from runner.tables.over_boots import Seen

_WORDS: Final = {
    "below_range": "even the lowest level of the search missed",
    "above_range": "even the highest level of the search met",
    "unknown": "a probe could not tell, so the search was given up",
}
_NOTE: Final = (
    "capacity: highest level that met the SLO in steady state, of each boot. [95 %]: t interval"
    " over boots on the log scale, its low end of the levels that met, its high end of the lowest"
    " levels that missed."
)


def build(results: Results) -> Shown | None:
    """Show the capacity of each boot, its interval over boots, and the servers for a peak."""
    found = searches(results)
    if found.empty:
        return None
    rows: list[dict[str, Any]] = []
    doubts: Seen = {}
    above: list[str] = []
    keys = ["experiment", "run", "place", "label", "load", "repeat"]
    groups: Any = found.groupby(keys, sort=False)
    for key, boots in groups:
        asked = _asked(results, str(key[0]), str(key[1]))
        rows.append(_row(boots, asked))
        for name, said in _doubts(boots):
            doubts.setdefault(name, []).append(said)
        above += [line for line in _above(boots, asked) if line not in above]
    return Shown(frame=pd.DataFrame(rows), above=above, notes=[_NOTE], doubts=doubts)


@once
def searches(results: Results) -> pd.DataFrame:
    """Return what the searches of complete boots found, in the order of cells."""
    boots = complete(results)
    keys = ["experiment", "run", "cell_id", "boot", "attempt"]
    own = ["block", "kv_tokens", "max_running", "compile_cache"]
    found = results.capacity.merge(boots[[*keys, *own]], on=keys)
    sorted_by = ["place", "load", "repeat", "boot"]
    return labelled(found, results).sort_values(sorted_by, kind="stable")


def _row(boots: pd.DataFrame, asked: Capacity | None) -> dict[str, Any]:
    first: dict[str, Any] = {str(k): v for k, v in boots.iloc[0].items()}
    again = f" #{first['repeat'] + 1}" if boots.repeat.any() else ""
    between = _interval(boots)
    row: dict[str, Any] = {
        "cell": first["label"],
        "load": f"{first['load']}{again}",
        "boots": spans([int(boot) for boot in boots.boot]),
        "unit": "req/s" if first["level_kind"] == "rate_per_s" else "in flight",
        "capacity": _values(boots, "level"),
        "missed at": _values(boots, "missed_level"),
        "mean [95 %] capacity": between,
        "served req/s": _values(boots, "requests_per_s"),
        "probes": _values(boots, "probes"),
    }
    if asked is not None:
        row["servers"] = _servers(boots, between, asked)
    return row | {"doubts": ", ".join(dict(_doubts(boots))) or None}


def _values(boots: pd.DataFrame, column: str) -> Values:
    return tuple(None if pd.isna(value) else float(value) for value in boots[column])


def _interval(boots: pd.DataFrame) -> Centre | None:
    """Return the geometric mean of what met, and limits that hold the bracket of every boot."""
    if (boots.why != "found").any():
        return None
    low, high = list(boots.level.astype(float)), list(boots.missed_level.astype(float))
    if len(low) == 1:
        return Centre(middle=low[0], low=low[0], high=high[0], boots=1)
    under, over = geometric(low), geometric(high)
    if isinstance(under, Refusal) or isinstance(over, Refusal):
        return None
    return Centre(middle=under.centre, low=under.low, high=over.high, boots=len(low), interval=True)


def _servers(boots: pd.DataFrame, between: Centre | None, asked: Capacity) -> Centre | None:
    """Return how many servers a peak needs; fewest at the interval's high end."""
    if between is None or between.middle is None:
        return None
    middle = between.middle
    served = boots.requests_per_s if boots.level_kind.iloc[0] == "concurrency" else None
    scale = 1.0 if served is None else float(served.mean()) / middle

    def needed(level: float) -> int:
        return instances(asked.peak_per_s, level * scale, asked.utilisation_ratio, asked.spares)

    return Centre(
        middle=needed(middle),
        low=needed(between.high),
        high=needed(between.low),
        boots=between.boots,
        interval=between.interval,
    )


def _doubts(boots: pd.DataFrame) -> Iterator[tuple[str, str]]:
    who = f"{boots.label.iloc[0]} {boots.load.iloc[0]}"
    lacking = boots[boots.why != "found"]
    if not lacking.empty:
        why = _WORDS.get(str(lacking.why.iloc[0]), str(lacking.why.iloc[0]))
        listed = spans([int(boot) for boot in lacking.boot])
        yield "unsearched", f"{who}: in boot {listed} {why}, so there is no interval"
    if len(boots) == 1:
        yield "single_boot", f"{who}: one boot alone stands behind it"


def _above(boots: pd.DataFrame, asked: Capacity | None) -> Iterator[str]:
    yield f"{boots.load.iloc[0]}: {boots.slo.iloc[0]}."
    if asked is not None:
        spares = f" plus {asked.spares} spare" if asked.spares else ""
        yield (
            f"servers: {asked.peak_per_s:g} requests per second / (capacity x"
            f" {asked.utilisation_ratio:g}), rounded up{spares}."
        )


def _asked(results: Results, experiment: str, run: str) -> Capacity | None:
    """Return the `[capacity]` of a run's file as it is now kept; None without one."""
    cells = results.cells[(results.cells.experiment == experiment) & (results.cells.run == run)]
    for note in results.notes:
        if (note["experiment"], note["run"]) == (experiment, run):
            return _of_file(note["file"], rehearsal=bool(cells.rehearsal.fillna(False).any()))
    return None


@functools.lru_cache(maxsize=64)
def _of_file(text: str, *, rehearsal: bool) -> Capacity | None:
    try:
        raw = tomllib.loads(text)
        laid = overlaid(raw, raw.get("rehearse", {})) if rehearsal else raw
        return Capacity.model_validate(laid["capacity"])
    except (tomllib.TOMLDecodeError, ValidationError, KeyError):
        return None


TABLE = Table(
    name="capacity",
    title="Capacity: the highest level that meets the SLO",
    order=45,
    build=build,
)
