"""An article's figures beside ours, each with its ratio and with what is set otherwise here.

In every run a figure is held against one cell and one load: of those that ask for what it asks for
the nearest, the one with the least set otherwise.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePath
from statistics import median
from typing import Any, Final

import pandas as pd

from runner.experiment.levels import Load
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.article_measures import Found, found_of
from runner.tables.declared import declared
from runner.tables.kinds import KEY, Key, kinds_of
from runner.tables.measured import complete, records
from runner.tables.runs import cells_of

_AXES: Final = {
    "weights": "as_stored",
    "prefix_cache": True,
    "chunk_tokens": None,
    "mixed_chunk": None,
}
"""Settings that tell the article's cells apart, with what a cell has that asks for nothing."""
_STEADY_RATIO: Final = 1.1
"""Values further apart than this have no single figure to take a ratio of."""
_LENGTHS: Final = ("input_tokens", "output_tokens", "prefix_tokens", "injected_input_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured quantity of the article; keys as its file explains them."""

    experiment: str
    engine: str
    measure: str
    values: tuple[float, ...] = ()
    range: tuple[float, ...] = ()
    concurrency: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    about: bool = False
    fit: bool = False


@functools.cache
def published() -> tuple[dict[str, Any], tuple[Figure, ...]]:
    """Return the article's setup and loads, and its figures."""
    text = resources.files(__package__).joinpath("article.toml").read_text(encoding="utf-8")
    raw = tomllib.loads(text)
    return raw, tuple(_figure(one) for one in raw.pop("figure"))


def _figure(keys: Mapping[str, Any]) -> Figure:
    given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in keys.items()}
    return Figure(**given)


def build(results: Results) -> Shown | None:
    """Show each figure of the article that a cell of ours asks for too."""
    boots = complete(results)
    if boots.empty:
        return None
    cells = cells_of(results)
    kinds = kinds_of(boots, results)
    groups: Any = boots.groupby(KEY)
    own_boots: dict[Key, pd.DataFrame] = dict(list(groups))
    rows = [
        _row(figure, held, several=kinds[held.key].several)
        for run in dict.fromkeys(key[:2] for key in own_boots)
        for figure in _once(run[0])
        if (held := _nearest(figure, run, own_boots, cells, results)) is not None
    ]
    if not rows:
        said = "No cell of these results asks for a figure of the article."
        return Shown(frame=pd.DataFrame({"figure": []}), above=[said], keys=1)
    return Shown(frame=pd.DataFrame(rows), above=[_standing(boots)], notes=[_note()], keys=2)


def _once(experiment: str) -> tuple[Figure, ...]:
    """Return the figures, of those that say the same of the same the one of our own experiment."""
    kept: dict[tuple[Any, ...], Figure] = {}
    for figure in published()[1]:
        settings = json.dumps(figure.settings, sort_keys=True)
        same = (figure.engine, figure.model, figure.measure, figure.concurrency, settings)
        if same not in kept or figure.experiment == experiment:
            kept[same] = figure
    return tuple(kept.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """What a figure is held against, and what is set otherwise there."""

    key: Key
    found: Found
    label: str
    otherwise: tuple[str, ...]


def _nearest(
    figure: Figure,
    run: tuple[str, str],
    boots: Mapping[Key, pd.DataFrame],
    cells: Mapping[Key, Mapping[str, Any]],
    results: Results,
) -> _Held | None:
    """Return the cell and load of a run that are nearest to a figure's own, None where none is."""
    held = [
        _Held(
            key=key,
            found=found,
            label=str(own.label.iloc[0]),
            otherwise=tuple(_otherwise(figure, found, cells[key], own, results)),
        )
        for key, own in boots.items()
        if key[:2] == run and _asks_for(cells[key], figure)
        for found in found_of(results, figure.measure, figure.concurrency, key, own)
    ]
    return min(held, key=lambda one: len(one.otherwise), default=None)


def _asks_for(cell: Mapping[str, Any], figure: Figure) -> bool:
    """Tell whether a cell has the engine, the model and the settings of the article's.

    Its restarts found kernels compiled, but for the first: of cells that differ in nothing else it
    is the one that keeps them.
    """
    model = PurePath(str(cell["model"] or "").partition("@")[0]).name
    wanted = PurePath(figure.model or published()[0]["setup"]["model"]).name
    asked = json.loads(cell["settings"] or "{}")
    pinned = figure.settings.get("kv_tokens")
    compiles = "none" if figure.measure == "ready_first_s" else "per_cell"
    return (
        cell["engine"] == figure.engine
        and model == wanted
        and (pinned is None or asked.get("memory", {}).get("kv_tokens") == pinned)
        and asked.get("compile", compiles) == compiles
        and all(
            asked.get(axis, usual) == figure.settings.get(axis, usual)
            for axis, usual in _AXES.items()
        )
    )


def _row(figure: Figure, held: _Held, *, several: bool) -> dict[str, Any]:
    level = f" at {figure.concurrency}" if figure.concurrency else ""
    comparable = not several and not any("tokens" in one for one in held.otherwise)
    about = "about " if figure.about else ""
    theirs = about + " to ".join(f"{v:g}" for v in figure.range or figure.values[:1])
    ours = held.found.values
    return {
        "figure": f"{figure.engine}{level}: {figure.measure}",
        "cell": held.label,
        "article": figure.values if len(figure.values) > 1 else theirs,
        "ours": ours,
        "ratio": _ratio(ours, figure.values or figure.range) if comparable else None,
        "set otherwise here": "; ".join(held.otherwise) or "nothing that is known",
    }


def _otherwise(
    figure: Figure,
    found: Found,
    cell: Mapping[str, Any],
    boots: pd.DataFrame,
    results: Results,
) -> Iterator[str]:
    """Yield what is not as in the article."""
    setup = published()[0]["setup"]
    yield _served(boots)
    asked = json.loads(cell["settings"] or "{}")
    theirs = setup[figure.engine]
    fraction = figure.settings.get("fraction", theirs["fraction"])
    if asked.get("memory", {}).get("fraction") != fraction and "kv_tokens" not in figure.settings:
        yield f"memory {_spelled(asked.get('memory'))}, not fraction {fraction}"
    for name in ("max_running", "context_tokens"):
        if asked.get(name) != setup[name]:
            yield f"{name} {asked.get(name, 'as the engine chooses')}, not {setup[name]}"
    versions = ", ".join(dict.fromkeys(str(v) for v in boots.version.dropna()))
    if versions and versions != theirs["version"]:
        yield f"version {versions}, not {theirs['version']}"
    yield from _lengths(figure, found, boots, results)


def _lengths(figure: Figure, found: Found, boots: pd.DataFrame, results: Results) -> Iterator[str]:
    loads = published()[0]["loads"]
    theirs = loads.get(figure.experiment, loads["throughput_512"])
    first = boots.iloc[0]
    plan = declared(results, first.experiment, first.run).plans.get(found.load or "")
    for name in _LENGTHS if plan is not None else ():
        ours = getattr(plan.spec, name, None) if plan else None
        if ours is not None and name in theirs and ours != theirs[name]:
            yield f"{name} {ours}, not {theirs[name]}"
    if plan is not None and figure.measure.startswith("ttft"):
        yield from _waves(plan, theirs)


def _waves(load: Load, theirs: Mapping[str, Any]) -> Iterator[str]:
    """Yield how often each stream asks: where not all fit, a median TTFT lies between waves."""
    assumed, asked = theirs.get("per_stream"), load.requests
    if assumed is None or asked is None or not load.in_flight:
        return
    if asked != assumed * load.in_flight:
        yield (
            f"{asked / load.in_flight:g} requests a stream, not {assumed} (assumed of theirs): the"
            " more, the longer a median TTFT where not all fit: only first ones find room at once"
        )


def _served(boots: pd.DataFrame) -> str:
    first = records(boots)[0]
    if first["simulated"]:
        return "the simulated engine"
    names = first["gpu_names"]
    gpu = ", ".join(names) if names is not None and len(names) else "a CPU"
    return f"a rehearsal on {gpu}" if first["rehearsal"] else gpu


def _standing(boots: pd.DataFrame) -> str:
    """Return what these figures are worth beside the article's: never more than they are."""
    measured = [row for row in records(boots) if not row["simulated"] and not row["rehearsal"]]
    on_gpu = [row for row in measured if row["gpu_names"] is not None and len(row["gpu_names"])]
    if not on_gpu:
        return (
            "Nothing here reproduces the article: what served is the simulated engine, a rehearsal"
            " or a CPU. The ratios show whether mechanisms agree, not whether figures do."
        )
    return (
        "The article's card is of the 8 GB class. On another one a ratio compares the cards as"
        " well; only a row whose last column names nothing but such a card repeats a measurement."
    )


def _note() -> str:
    return (
        "ours: each boot. ratio: median of ours over the middle of theirs; none where either is of"
        f" several kinds (over {100 * (_STEADY_RATIO - 1):.0f} % apart) or lengths differ."
    )


def _ratio(ours: Sequence[float | None], theirs: Sequence[float]) -> float | None:
    known = [value for value in ours if value is not None]
    if not known or max(theirs) > _STEADY_RATIO * min(theirs):
        return None
    return median(known) / median(theirs)


def _spelled(memory: Mapping[str, Any] | None) -> str:
    return " ".join(f"{k} {v}" for k, v in memory.items()) if memory else "as the engine chooses"


TABLE = Table(
    name="article", title="The article's figures beside ours", order=99, build=build, asked=True
)
