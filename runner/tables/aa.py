"""A/A: the same cell under two names, and how often this bench called that a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from runner.experiment.aa import AGAIN
from runner.stats.interval import Interval, LogMean, paired, pairs
from runner.stats.nights import alarm_rate
from runner.stats.refusal import Refusal
from runner.stats.verdict import Comparison, Rules, Verdict, least_boots, verdicts
from runner.stored.frames import Results, once
from runner.tables import Shown, Table
from runner.tables.declared import declared
from runner.tables.kinds import Key
from runner.tables.measured import records
from runner.tables.ratio import centre_of
from runner.tables.runs import cells_by_run, runs_of
from runner.tables.samples import Sample, samples_by_run

_MOST_RUNS: Final = 180
_ASKED: Final = ("engine", "launcher", "image", "model", "settings", "flags", "env")
"""Columns of `cells` in which the twin is its original."""
_PLACE: Final = ("simulated", "rehearsal")
_NOTE: Final = (
    "Nothing differs between the two but the name, so every alarm is a false one. The half-width"
    " is the smallest margin that this bench resolves at that load."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One load of a cell against itself in one run.

    Attributes:
        cell: the original.
        twin: the same under another name.
        verdict: what was called; anything but "not enough data" is a false alarm.
    """

    cell: Sample
    twin: Sample
    verdict: Verdict

    @property
    def is_alarm(self) -> bool:
        """Tell whether nothing was called a change."""
        return self.verdict.word in {"better", "worse"}


def build(results: Results) -> Shown | None:
    """Show each load of the twin over its original, and the rate of alarms over all runs."""
    rows: list[dict[str, Any]] = []
    above: list[str] = []
    for experiment, run in runs_of(results):
        metric = declared(results, experiment, run).compare.metric
        own = audits(results, experiment, run, metric)
        rows += [_row(one) for one in own]
        if own:
            above.append(_rate(results, experiment, run, metric))
    if not rows:
        return None
    return Shown(frame=pd.DataFrame(rows), above=list(dict.fromkeys(above)), notes=[_NOTE])


def floors(results: Results, experiment: str, run: str, metric: str) -> dict[str, Interval]:
    """Return the interval of the cell against itself at each load, where an A/A has one."""
    found = {}
    for one in audits(results, experiment, run, metric):
        if isinstance(one.verdict.interval, Interval):
            found[one.cell.load] = one.verdict.interval
    return found


@once
def audits(results: Results, experiment: str, run: str, metric: str) -> list[Audit]:
    """Return the A/A of one run at each load that both have."""
    cells = _cells(results, experiment, run)
    twin = next((key for key, row in cells.items() if row["name"] == AGAIN), None)
    cell = _original(cells, twin) if twin else None
    by_cell = samples_by_run(results, metric).get((experiment, run), {})
    both = [
        (by_cell[(cell, load)], sample)
        for (key, load), sample in by_cell.items()
        if key == twin and cell is not None and (cell, load) in by_cell
    ]
    asked = [Comparison(name=one.load, mean=_mean(one, other)) for one, other in both]
    rules = Rules(m=max(len(both), 1), margin=None, higher_is_better=metric.endswith("_per_s"))
    return [
        Audit(cell=one, twin=other, verdict=verdict)
        for (one, other), verdict in zip(both, verdicts(asked, rules), strict=True)
    ]


def _cells(results: Results, experiment: str, run: str) -> dict[Key, Mapping[str, Any]]:
    return dict(cells_by_run(results).get((experiment, run), {}))


def _original(cells: Mapping[Key, Mapping[str, Any]], twin: Key) -> Key | None:
    wanted = [str(cells[twin][name]) for name in _ASKED]
    same = (key for key, row in cells.items() if [str(row[name]) for name in _ASKED] == wanted)
    return next((key for key in same if key != twin), None)


def _mean(cell: Sample, twin: Sample) -> LogMean | Refusal:
    return paired(*pairs(twin.by_block, cell.by_block))


def _rate(results: Results, experiment: str, run: str, metric: str) -> str:
    """Return how many runs of an experiment called an alarm where there was nothing."""
    nights, alarms = 0, 0
    for own in _each_run(results, experiment, run, metric):
        if max(one.verdict.n for one in own) >= least_boots(len(own)):
            nights += 1
            alarms += any(one.is_alarm for one in own)
    if nights == 0:
        return f"{experiment}: no run yet with 5 boots of both, so none could call an alarm."
    return f"{experiment}: {alarm_rate(nights, alarms)} ({metric})."


def _each_run(
    results: Results, experiment: str, run: str, metric: str
) -> Iterator[Sequence[Audit]]:
    """Yield the A/A of every run of an experiment that was measured as this one was."""
    [folder] = [folder for folder in results.folders if folder.name == experiment]
    narrow = replace(results, folders=[folder], runs=None, unreadable=[])
    twins = [row for row in records(narrow.cells) if row["name"] == AGAIN]
    here = next(row for row in twins if row["run"] == run)
    alike = [row["run"] for row in twins if all(row[mark] == here[mark] for mark in _PLACE)]
    every = replace(narrow, runs=sorted(alike)[-_MOST_RUNS:])
    for one in every.runs or ():
        own = audits(every, experiment, one, metric)
        if own:
            yield own


def _row(one: Audit) -> dict[str, Any]:
    found = one.verdict.interval
    return {
        "cell": one.cell.cell,
        "load": one.cell.load,
        "blocks": one.verdict.n or None,
        "as itself": one.cell.figures,
        f"as {AGAIN}": one.twin.figures,
        "ratio [95 %]": centre_of(found, one.verdict.n),
        "half-width %": 100 * found.half_width_ratio if isinstance(found, Interval) else None,
        "called": f"ALARM: {one.verdict.word}" if one.is_alarm else "nothing",
    }


TABLE = Table(name="aa", title="A/A: the same cell under two names", order=28, build=build)
