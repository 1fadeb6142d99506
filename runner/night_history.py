"""Earlier nights: the last one to be held against, and one mean per night for all the others.

Boots of two nights are never pooled: a night counts once, however many boots it had. Nights on
another GPU or machine, and nights whose boots are of several kinds, take no part in the means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runner.between import History
from runner.experiment.night import REFERENCE
from runner.frames import Results, results
from runner.stats.changes import Change, alarm
from runner.stats.interval import per_boot
from runner.stats.refusal import Refusal
from runner.store import Store
from runner.tables.columns import wanted
from runner.tables.kinds import KEY, kinds_of
from runner.tables.over_boots import complete
from runner.tables.runs import cells_of
from runner.tables.samples import Sample, samples

_MOST_NIGHTS: Final = 180
Cell = tuple[str, str]
"""cell_id and load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What earlier nights of one experiment say.

    Attributes:
        last: the run of the last night with a complete boot; None when there is none.
        night: its name.
        means: mean of each earlier night.
        series: the same with tonight at its end, taken against the pinned cell where each night
            has one.
    """

    last: Results | None
    night: str
    means: History
    series: Mapping[Cell, Sequence[float]]


def earlier(results_folder: Path, experiment: str, run: str, metric: str) -> Earlier:
    """Return what the nights before a run say of its cells.

    Args:
        results_folder: folder of all results.
        experiment: which experiment.
        run: tonight's run.
        metric: column of `loads`.
    """
    store = Store(results_folder, experiment)
    nights = _nights(store, run)
    if not nights:
        return Earlier(last=None, night="", means={}, series={})
    every = results(store.folder, runs=[*nights, run], wanted=wanted)
    by_night = _by_run(every, metric, run)
    served = set(complete(every).run)
    last = next((one for one in reversed(list(nights)) if one in served), None)
    means: dict[Cell, list[float]] = {}
    series: dict[Cell, list[float]] = {}
    for cell in by_night.get(run, {}):
        own = [by_night[one][cell] for one in [*nights, run] if cell in by_night.get(one, {})]
        means[cell] = [mean for mean, _ in own[:-1]]
        against = [ratio for _, ratio in own if ratio is not None]
        series[cell] = against if len(against) == len(own) else [mean for mean, _ in own]
    return Earlier(
        last=results(store.folder, runs=[last], wanted=wanted) if last else None,
        night=nights[last] if last else "",
        means=means,
        series=series,
    )


def since(
    series: Mapping[Cell, Sequence[float]], margin_ratio: float
) -> dict[Cell, Change | Refusal]:
    """Return the change that each series shows for two nights running, or why none can be told."""
    found = {cell: alarm(values, margin=margin_ratio) for cell, values in series.items()}
    return {cell: change for cell, change in found.items() if change is not None}


def _nights(store: Store, run: str) -> dict[str, str]:
    """Return run -> night of earlier nights, oldest first, the last run of each night alone."""
    notes = store.runs()
    tonight = next((note["night"] for note in notes if note["run"] == run), None)
    before = [n for n in notes if n.get("night") and n["run"] < run and n["night"] != tonight]
    latest = {note["night"]: note["run"] for note in before}
    listed = sorted((run_id, night) for night, run_id in latest.items())[-_MOST_NIGHTS:]
    return dict(listed)


def _by_run(
    every: Results, metric: str, tonight: str
) -> dict[str, dict[Cell, tuple[float, float | None]]]:
    """Return run -> cell -> its mean, and its mean ratio to the pinned cell of that run."""
    boots = complete(every)
    kinds = kinds_of(boots, every)
    groups: Any = boots.groupby(KEY)
    machine = {key: (str(own.host.iloc[0]), str(own.gpu_names.iloc[0])) for key, own in groups}
    home = {key[2]: place for key, place in machine.items() if key[1] == tonight}
    pinned = {k[1]: k for k, cell in cells_of(every).items() if cell["name"] == REFERENCE}
    by_cell = samples(every, metric)
    found: dict[str, dict[Cell, tuple[float, float | None]]] = {}
    for (key, load), sample in by_cell.items():
        elsewhere = machine[key] != home.get(key[2], machine[key])
        if elsewhere or kinds[key].several or not sample.by_block or key == pinned.get(key[1]):
            continue
        reference = by_cell.get((pinned[key[1]], load)) if key[1] in pinned else None
        mean = per_boot([list(sample.by_block.values())])[0]
        found.setdefault(key[1], {})[(key[2], load)] = (mean, _against(sample, reference))
    return found


def _against(sample: Sample, reference: Sample | None) -> float | None:
    """Return the geometric mean of the ratio to the pinned cell over the blocks of both."""
    if reference is None:
        return None
    blocks = sample.by_block.keys() & reference.by_block.keys()
    ratios = [sample.by_block[block] / reference.by_block[block] for block in sorted(blocks)]
    return per_boot([ratios])[0] if ratios else None
