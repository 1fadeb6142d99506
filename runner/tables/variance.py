"""How much of the spread comes from the load repeat, the restart and the night."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from runner.stats.design import spread
from runner.stats.refusal import Refusal
from runner.stats.variance import Groups, VarianceShare, boot_share, next_plan, night_share
from runner.stored.frames import Results, once
from runner.tables import Centre, Shown, Table
from runner.tables.declared import declared
from runner.tables.kinds import Key, Kinds
from runner.tables.measured import complete, kinds_by_cell, measured, values
from runner.tables.runs import cells_by_run, runs_of
from runner.tables.samples import Samples, samples

_MOST_NIGHTS: Final = 180
_NOTE: Final = (
    "sd: standard deviation of the natural logarithm, as a share: 1 % is a spread of 1 %; its"
    " brackets are an 80 % chi-square interval. Shares are of ANOVA with exact F limits (95 %); a"
    " negative estimate is shown as 0 with its upper limit. Cells whose boots are of several kinds"
    " take no part: kinds are no spread."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The cells of one engine at one load, pooled within cells.

    Attributes:
        engine: which engine.
        load: id of the load.
        cells: each a list of boots, each boot its load repeats.
        boot_s, load_s: median seconds of a boot without its loads, and of one such load.
        runs: experiment and run.
    """

    engine: str
    load: str
    cells: Sequence[Groups]
    boot_s: float
    load_s: float
    run: tuple[str, str]


def build(results: Results) -> Shown | None:
    """Show the spread of boots of each engine and load, what share is the restart's, and a plan."""
    rows: list[dict[str, Any]] = []
    nightly: dict[tuple[str, str], set[str]] = {}
    of_night = {(n["experiment"], n["run"]) for n in results.notes if n.get("night")}
    for experiment, run in runs_of(results):
        said = declared(results, experiment, run)
        families = _families(results, (experiment, run), said.compare.metric)
        rows += [_row(one, said.compare.margin_ratio, max(said.m, 1)) for one in families]
        if (experiment, run) in of_night:
            nightly.setdefault((experiment, said.compare.metric), set()).add(run)
    for (experiment, metric), runs in nightly.items():
        rows += _nights(results, experiment, runs, metric)
    if not rows:
        return None
    return Shown(frame=pd.DataFrame(rows), notes=[_NOTE])


def plans(shown: Shown) -> list[str]:
    """Return the next plan of each engine and load whose variances are known, in words."""
    rows = shown.frame.to_dict("records")
    return [
        f"{row['engine']} {row['load']}: {row['next plan']}" for row in rows if row["next plan"]
    ]


def _families(results: Results, run: tuple[str, str], metric: str) -> Iterator[Family]:
    own = _loads_by_run(results).get(run)
    if own is None:
        return
    kinds = kinds_by_cell(results)
    engines = {key: str(cell["engine"]) for key, cell in cells_by_run(results)[run].items()}
    found: dict[tuple[str, str], list[pd.DataFrame]] = {}
    groups: Any = own.groupby(["place", "load"], sort=False)
    for (_, load), rows in groups:
        key: Key = (*run, str(rows.cell_id.iloc[0]))
        if not kinds[key].several and rows.boot.nunique() > 1:
            found.setdefault((engines[key], str(load)), []).append(rows)
    for (engine, load), cells in found.items():
        yield Family(
            engine=engine,
            load=load,
            cells=[_boots(rows, metric) for rows in cells],
            boot_s=_boot_s(results, run, cells),
            load_s=float(pd.concat(cells).duration_s.median()),
            run=run,
        )


@once
def _loads_by_run(results: Results) -> dict[tuple[str, str], pd.DataFrame]:
    groups: Any = measured(results).groupby(["experiment", "run"], sort=False)
    return dict(iter(groups))


@once
def _boots_by_run(results: Results) -> dict[tuple[str, str], pd.DataFrame]:
    groups: Any = complete(results).groupby(["experiment", "run"], sort=False)
    return dict(iter(groups))


def _boots(rows: pd.DataFrame, metric: str) -> Groups:
    of_boot: dict[int, list[float]] = {}
    for boot, figure in zip(rows.boot, values(rows, metric), strict=True):
        if figure is not None and figure > 0:
            of_boot.setdefault(int(boot), []).append(figure)
    return list(of_boot.values())


def _boot_s(results: Results, run: tuple[str, str], cells: Sequence[pd.DataFrame]) -> float:
    ids = {str(rows.cell_id.iloc[0]) for rows in cells}
    boots = _boots_by_run(results)[run]
    own = boots[boots.cell_id.isin(ids)]
    beside = own[["create_s", "ready_s", "stop_s", "release_s"]].sum(axis=1)
    return float(beside.median())


def _row(family: Family, margin: float, m: int) -> dict[str, Any]:
    share = boot_share([cell for cell in family.cells if len(cell) > 1])
    boots = [len(cell) for cell in family.cells]
    row: dict[str, Any] = {
        "engine": family.engine,
        "load": family.load,
        "cells x boots": f"{len(boots)} x {_range(boots)}",
        "repeats": _range([len(boot) for cell in family.cells for boot in cell]),
        "sd of boots %": _sd(family.cells),
    }
    row["of which the restart"] = _told(share)
    if isinstance(share, VarianceShare):
        row["sd of repeats %"] = 100 * share.within_sd
        row["next plan"] = _plan(share, family, margin, m)
    else:
        row["sd of repeats %"] = row["next plan"] = None
    return row


def _sd(cells: Sequence[Groups]) -> Centre | None:
    """Return the pooled sd of a boot's figure within cells, with its 80 % interval."""
    logs = [np.array([float(np.log(boot).mean()) for boot in cell if len(boot)]) for cell in cells]
    logs = [own for own in logs if len(own) > 1]
    df = sum(len(own) - 1 for own in logs)
    if df == 0:
        return None
    sd = float(np.sqrt(sum(float(((own - own.mean()) ** 2).sum()) for own in logs) / df))
    found = spread("these boots", sd, df + len(logs), df)
    low, high = 100 * found.low, 100 * found.high
    return Centre(middle=100 * sd, low=low, high=high, boots=df + len(logs), interval=True)


def _told(share: VarianceShare | Refusal) -> str:
    if isinstance(share, VarianceShare):
        low, high = 100 * share.low, 100 * share.high
        negative = " (estimate below 0)" if share.negative else ""
        return f"{100 * share.share:.0f} % [{low:.0f} - {high:.0f}]{negative}"
    if share.bounds is None:
        return "not estimable: the load needs repeats = 2 or more in each boot"
    short = f"; {share.needed_boots[0]} more boots" if share.needed_boots else ""
    return f"{share.reason}{short}"


def _plan(share: VarianceShare, family: Family, margin: float, m: int) -> str:
    """Return the cheapest plan that finds a difference of the margin between two such cells."""
    plan = next_plan(
        share, boot_s=family.boot_s, load_s=max(family.load_s, 1e-3), margin=margin, m=m
    )
    return (
        f"{plan.boots} boots x {plan.repeats} repeats find {100 * margin:g} % between two cells"
        f" (m = {m}), about {max(1, round(plan.cost_s / 60))} minutes"
    )


def _nights(
    results: Results, experiment: str, runs: Set[str], metric: str
) -> Iterator[dict[str, Any]]:
    """Yield how much of the spread between boots of a cell of some runs comes from the night."""
    [folder] = [folder for folder in results.folders if folder.name == experiment]
    narrow = replace(results, folders=[folder], runs=None, unreadable=[])
    of_night = {str(n["night"]): str(n["run"]) for n in narrow.notes if n.get("night")}
    nights = sorted(of_night.values())[-_MOST_NIGHTS:]
    read = {n["run"] for n in results.notes if n["experiment"] == experiment}
    every = results if read.issuperset(nights) else replace(narrow, runs=nights)
    found = {
        (key, load): one
        for (key, load), one in samples(every, metric).items()
        if key[0] == experiment and key[1] in nights
    }
    for (_, load), groups in _by_cell(found, kinds_by_cell(every), runs).items():
        if len(groups[1]) > 1:
            yield {
                "engine": groups[0],
                "load": f"{load}, over {len(groups[1])} nights",
                "cells x boots": f"1 x {_range([len(boots) for boots in groups[1]])} a night",
                "repeats": "1",
                "sd of boots %": _sd([[[figure] for figure in boots] for boots in groups[1]]),
                "of which the restart": _told_night(night_share(groups[1])),
                "sd of repeats %": None,
                "next plan": None,
            }


def _by_cell(
    found: Samples, kinds: Mapping[Key, Kinds], runs: Set[str]
) -> dict[tuple[str, str], tuple[str, list[list[float]]]]:
    """Return (cell_id, load) of some runs -> its name and the boots of each night."""
    names = {(key[2], load): one.label for (key, load), one in found.items() if key[1] in runs}
    groups: dict[tuple[str, str], tuple[str, list[list[float]]]] = {}
    for (key, load), sample in found.items():
        place = (key[2], load)
        if place in names and sample.by_block and not kinds[key].several:
            own = groups.setdefault(place, (names[place], []))
            own[1].append(list(sample.by_block.values()))
    return groups


def _told_night(share: VarianceShare | Refusal) -> str:
    if isinstance(share, VarianceShare):
        low, high = 100 * share.low, 100 * share.high
        return f"the night's: {100 * share.share:.0f} % [{low:.0f} - {high:.0f}]"
    return "the night's: not estimable under 10 nights"


def _range(counts: Sequence[int]) -> str:
    low, high = (min(counts), max(counts)) if counts else (0, 0)
    return str(low) if low == high else f"{low}-{high}"


TABLE = Table(name="variance", title="Restart variance", order=70, build=build)
