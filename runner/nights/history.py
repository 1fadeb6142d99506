"""Earlier nights: one to be held against, and one mean per night for all of them.

Boots of two nights are never pooled: a night counts once, however many boots it had. Nights on
another GPU or machine, simulated beside measured ones, nights that asked otherwise, and nights
whose boots are of several kinds take no part in the means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runner.experiment.night import REFERENCE
from runner.sides.changed import changes
from runner.sides.side import side_of
from runner.stats.changes import Change, alarm
from runner.stats.interval import per_boot
from runner.stats.nights import LEAST_BOOTS
from runner.stats.refusal import Refusal
from runner.stored.frames import Results, results
from runner.stored.store import Store
from runner.tables.columns import wanted
from runner.tables.declared import declared
from runner.tables.kinds import KEY
from runner.tables.measured import complete, kinds_by_cell, records
from runner.tables.runs import cells_of
from runner.tables.samples import Sample, samples

_MOST_NIGHTS: Final = 180
Cell = tuple[str, str]
"""cell_id and load."""
Series = Mapping[str, float]
"""Name of each night, oldest first -> its figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """A change that two nights running have shown.

    Attributes:
        change: the change.
        night: name of the first night after it.
        parts: what changed of the cell in that night, as `chunk (2048 became 8192)`.
    """

    change: Change
    night: str
    parts: Sequence[str]

    @property
    def told(self) -> str:
        """Return it in words."""
        also = f", when this changed: {', '.join(self.parts)}" if self.parts else ""
        return f"{100 * (self.change.ratio - 1):+.1f} % since about night {self.night}{also}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What earlier nights of one experiment say.

    Attributes:
        store: where they are.
        nights: run of each night, oldest first.
        last: name of the night to be held against: the last one with enough boots for a verdict,
            else the last with any; empty when there is none.
        means: mean of each earlier night.
        series: the same with tonight at its end, taken against the pinned cell where each night
            has one.
    """

    store: Store
    nights: Mapping[str, str] = field(default_factory=dict)
    last: str = ""
    means: Mapping[Cell, Series] = field(default_factory=dict)
    series: Mapping[Cell, Series] = field(default_factory=dict)

    def results_of(self, night: str) -> Results:
        """Return the results of one night."""
        return results(self.store.folder, runs=[self.nights[night]], wanted=wanted)

    def since(self, metric: str, margin_ratio: float) -> dict[Cell, Since]:
        """Return the change that each series shows for two nights running."""
        found = {}
        for cell, by_night in self.series.items():
            change = alarm(list(by_night.values()), margin=margin_ratio)
            if change is not None and not isinstance(change, Refusal):
                before, night = list(by_night)[change.night - 1 : change.night + 1]
                parts = self._changed(cell, before, night, metric)
                found[cell] = Since(change=change, night=night, parts=parts)
        return found

    def _changed(self, cell: Cell, before: str, night: str, metric: str) -> list[str]:
        now, then = (side_of(self.results_of(one), metric) for one in (night, before))
        return changes(now, then).get(cell[0], [])


def earlier(results_folder: Path, experiment: str, run: str, metric: str) -> Earlier:
    """Return what the nights before a run say of its cells.

    Args:
        results_folder: folder of all results.
        experiment: which experiment.
        run: tonight's run.
        metric: column of `loads`.
    """
    store = Store(results_folder, experiment)
    nights, tonight = _nights(store, run)
    if not nights:
        return Earlier(store=store)
    every = results(store.folder, runs=[*nights.values(), run], wanted=wanted)
    by_run = _by_run(every, metric, run)
    means: dict[Cell, Series] = {}
    series: dict[Cell, Series] = {}
    for cell in by_run.get(run, {}):
        all_nights = {**nights, tonight: run}
        own = {
            night: by_run[one][cell]
            for night, one in all_nights.items()
            if cell in by_run.get(one, {})
        }
        means[cell] = {night: mean for night, (mean, _) in own.items() if night != tonight}
        against = {night: ratio for night, (_, ratio) in own.items() if ratio is not None}
        plain = {night: mean for night, (mean, _) in own.items()}
        series[cell] = against if len(against) == len(own) else plain
    last = _last(every, nights)
    return Earlier(
        store=store, nights={**nights, tonight: run}, last=last, means=means, series=series
    )


def _last(every: Results, nights: Mapping[str, str]) -> str:
    """Return the last night whose every cell has boots for a verdict, else the last with a boot."""
    boots = complete(every)
    groups: Any = boots.groupby(["run", "cell_id"]).block.nunique().groupby("run").min()
    fewest = dict(groups)
    served = [night for night, run in nights.items() if run in fewest]
    enough = [night for night in served if fewest[nights[night]] >= LEAST_BOOTS]
    return next(reversed(enough or served), "")


def _nights(store: Store, run: str) -> tuple[dict[str, str], str]:
    """Return night -> run of earlier nights, the last run of each alone, and tonight's name."""
    notes = store.runs()
    tonight = next((note["night"] for note in notes if note["run"] == run), None)
    before = [n for n in notes if n.get("night") and n["run"] < run and n["night"] != tonight]
    latest = {note["night"]: note["run"] for note in before}
    listed = sorted((run_id, night) for night, run_id in latest.items())[-_MOST_NIGHTS:]
    return {night: run_id for run_id, night in listed}, str(tonight)


def _by_run(
    every: Results, metric: str, tonight: str
) -> dict[str, dict[Cell, tuple[float, float | None]]]:
    """Return run -> cell -> its mean, and its mean ratio to the pinned cell of that run."""
    kinds = kinds_by_cell(every)
    place = _places(every)
    asked = _asked(every)
    home = {key[2]: where for key, where in place.items() if key[1] == tonight}
    pinned = {k[1]: k for k, cell in cells_of(every).items() if cell["name"] == REFERENCE}
    by_cell = samples(every, metric)
    found: dict[str, dict[Cell, tuple[float, float | None]]] = {}
    for (key, load), sample in by_cell.items():
        elsewhere = place[key] != home.get(key[2], place[key])
        otherwise = asked[key[1]].get(load) != asked[tonight].get(load)
        if elsewhere or otherwise or kinds[key].several or not sample.by_block:
            continue
        if key == pinned.get(key[1]):
            continue
        reference = by_cell.get((pinned[key[1]], load)) if key[1] in pinned else None
        mean = per_boot([list(sample.by_block.values())])[0]
        found.setdefault(key[1], {})[(key[2], load)] = (mean, _against(sample, reference))
    return found


def _places(every: Results) -> dict[Any, tuple[str, ...]]:
    """Return where each cell of each run was measured: machine, GPUs, simulated, rehearsed."""
    marks = ("host", "gpu_names", "simulated", "rehearsal")
    first = records(complete(every).drop_duplicates(KEY))
    return {tuple(row[name] for name in KEY): tuple(str(row[m]) for m in marks) for row in first}


def _asked(every: Results) -> dict[str, dict[str, str]]:
    """Return what decides the work of each load of each run."""
    return {
        note["run"]: {
            load: json.dumps(plan.asked, sort_keys=True)
            for load, plan in declared(every, note["experiment"], note["run"]).plans.items()
        }
        for note in every.notes
    }


def _against(sample: Sample, reference: Sample | None) -> float | None:
    """Return the geometric mean of the ratio to the pinned cell over the blocks of both."""
    if reference is None:
        return None
    blocks = sample.by_block.keys() & reference.by_block.keys()
    ratios = [sample.by_block[block] / reference.by_block[block] for block in sorted(blocks)]
    return per_boot([ratios])[0] if ratios else None
