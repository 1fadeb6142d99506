"""`runner calibrate`: a GPU profile of the simulated engine, fitted to results of this machine."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from engines.sim import calibrate as reports
from engines.sim import scenarios
from engines.sim.figures import Figure, Figures
from engines.sim.predict import profile_of
from engines.sim.profile import Profile
from runner.errors import DONE, FAILED, NotEnoughData, RunnerError
from runner.stored.frames import Results, latest_runs, results
from runner.stored.parts import write_text
from runner.tables.measured import complete, records

MEASURE: Final = "output_tokens_per_s"
_SEARCHED: Final = ("step_s", "sequence_s")
_TIMES_ONLY: Final = frozenset({"client_error"})
"""Doubts that make the times of a load void but not how many tokens came in all."""
_MODEL_FLAGS: Final = frozenset({"--model", "--model-path", "--served-model-name", "--revision"})
_PLACE_FLAGS: Final = frozenset({"--host", "--port"})


def figures_of(found: Results, gpu: str, levels: Sequence[int] = ()) -> Figures:
    """Return the throughput of random prompts at each concurrency as figures to fit and predict.

    A figure is the median over boots and repeats. One cell of each engine counts, its first.

    Args:
        found: the results of one run.
        gpu: profile to begin from.
        levels: those to fit; the others are predicted. Every second one where none is given.

    Raises:
        NotEnoughData: no level is left to fit, or none to predict.
    """
    rows = list(_measured(found))
    known = sorted({int(row["level"]) for row in rows})
    fit = set(levels or known[1::2])
    if not fit.intersection(known) or not fit.symmetric_difference(known) - fit:
        raise NotEnoughData(
            f"levels {known or 'none'}: some are needed to fit and others to predict; measure"
            ' workload = "random" at several of concurrency = [1, 4, 8, 16, 32]'
        )
    cells = {row["engine"]: row for row in rows}
    return Figures(
        gpu=gpu,
        setup={engine: _setup(row) for engine, row in cells.items()},
        loads={f"random-{n}": _load(rows, n) for n in known},
        figures=tuple(_figures(rows, fit)),
        search=tuple(f"{engine}.{name}" for engine in cells for name in _SEARCHED),
    )


def _measured(found: Results) -> Iterator[Mapping[str, Any]]:
    """Yield the loads that count, each beside its cell and boot."""
    boots = complete(found)[["run", "cell_id", "boot", "version", "ready_s", "host"]]
    cells = found.cells[["run", "cell_id", "engine", "model", "flags"]]
    first = cells.drop_duplicates("engine")
    loads = found.loads[
        (found.loads.workload == "random") & (found.loads.level_kind == "concurrency")
    ]
    whole = loads.merge(boots, on=["run", "cell_id", "boot"]).merge(first, on=["run", "cell_id"])
    for row in records(whole):
        void = {doubt["name"] for doubt in row["doubts"] if doubt["severity"] == "void"}
        if void <= _TIMES_ONLY and row["ok"]:
            yield row


def _figures(rows: Sequence[Mapping[str, Any]], fit: set[int]) -> Iterator[Figure]:
    for engine, level in sorted({(row["engine"], int(row["level"])) for row in rows}):
        own = [row for row in rows if (row["engine"], row["level"]) == (engine, level)]
        yield Figure(
            experiment=f"random-{level}",
            engine=engine,
            measure=MEASURE,
            model=own[0]["model"],
            concurrency=level,
            values=(median(row[MEASURE] for row in own),),
            fit=level in fit,
        )


def _load(rows: Sequence[Mapping[str, Any]], level: int) -> dict[str, Any]:
    """Return the lengths and the number of requests of one level, as they were measured."""
    own = [row for row in rows if row["level"] == level]
    return {
        "kind": "closed",
        "input_tokens": round(median(row["input_tokens"] / row["ok"] for row in own)),
        "output_tokens": round(median(row["output_tokens"] / row["ok"] for row in own)),
        "per_stream": max(1, round(median(row["ok"] for row in own) / level)),
    }


def _setup(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an engine's release, and its flags but for model and address."""
    words, kept = list(row["flags"]), []
    while words:
        word = words.pop(0)
        if word in _MODEL_FLAGS | _PLACE_FLAGS:
            words.pop(0)
        else:
            kept.append(word)
    return {"version": row["version"], "flags": " ".join(kept)}


def calibrated(found: Results, figures: Figures, start: Profile) -> Profile:
    """Return a profile whose times fit the figures marked so, with the error of all."""
    from engines.sim.fitting import fitted  # scipy is slow to import

    boots = complete(found).merge(found.cells[["run", "cell_id", "engine"]], on=["run", "cell_id"])
    ready = boots.groupby("engine").ready_s.median().to_dict()
    engines = {
        name: dataclasses.replace(own, ready_s=float(ready[name]), cold_ready_s=0.0)
        if name in ready
        else own
        for name, own in start.engines.items()
    }
    profile = fitted(figures, _scaled(figures, dataclasses.replace(start, engines=engines)))
    levels = sorted({figure.concurrency or 0 for figure in figures.figures if figure.fit})
    run, host = (str(boots[name].iloc[0]) for name in ("run", "host"))
    return dataclasses.replace(
        profile,
        name=host,
        source=f"fitted to throughput at concurrency {levels} of run {run}",
        errors=dict(reports.errors_of(figures, profile)),
    )


def _scaled(figures: Figures, start: Profile) -> Profile:
    """Return a profile whose engines are as fast as measured at one level: a fit begins near."""
    engines = dict(start.engines)
    for engine in figures.setup:
        first = next(one for one in figures.figures if one.fit and one.engine == engine)
        [simulated] = scenarios.predict(figures, first, start)
        slower = simulated / first.values[0]
        own = engines[engine]
        changes = {name: getattr(own, name) * slower for name in (*_SEARCHED, "request_s")}
        engines[engine] = dataclasses.replace(own, **changes)
    return dataclasses.replace(start, engines=engines)


@click.command("calibrate")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--gpu", default="cpu", show_default=True, help="GPU profile to begin from.")
@click.option("--fit", "levels", multiple=True, type=int, help="Level to fit; may be repeated.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Profile's file.")
def command(path: Path, gpu: str, levels: tuple[int, ...], write: Path | None) -> None:
    """Fit the simulated engine to the throughput in PATH, and predict the levels not fitted.

    \b
    runner calibrate results/cpu --fit 4 --fit 16 --write here.toml
    runner plan experiments/cpu.toml --predict --gpu here.toml
    """
    try:
        sys.exit(_calibrate(path, gpu, levels, write))
    except RunnerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)


def _calibrate(path: Path, gpu: str, levels: tuple[int, ...], write: Path | None) -> int:
    found = results(path, runs=latest_runs(path))
    figures = figures_of(found, gpu, levels)
    profile = calibrated(found, figures, profile_of(gpu))
    for line in reports.report(figures, profile):
        click.echo(line)
    if write is not None:
        write_text(write, reports.toml(profile))
        click.echo(f"Profile: {write}")
    return FAILED if max(profile.errors.values()) > reports.NEAR_RATIO else DONE
