"""`runner compare A B`: the same cells in two runs, and what changed between them."""

from __future__ import annotations

import sys
from typing import get_args

import click

from runner.errors import DONE, FAILED, ExperimentError, NotEnoughData, RunnerError
from runner.experiment import Metric
from runner.report import labels, render
from runner.sides.between import Between, Pair, between, table
from runner.sides.side import side_of
from runner.stats.verdict import Rules
from runner.stored.frames import Results, latest_runs, results
from runner.tables import Table
from runner.tables.columns import wanted


def compared(
    then: Results, now: Results, *, metric: str, margin_ratio: float | None = 0.03
) -> Between:
    """Hold the cells of one run against the same cells of an earlier one.

    Where no cell asks the same in both (another image), cells of one label are held together.

    Args:
        then: the earlier run.
        now: the later run.
        metric: column of `loads`.
        margin_ratio: differences under this share count as none.
    """
    rules = Rules(margin=margin_ratio, higher_is_better=metric.endswith("_per_s"))
    sides = side_of(now, metric), side_of(then, metric)
    if not sides[0].samples.keys() & sides[1].samples.keys():
        sides = side_of(now, metric, by="label"), side_of(then, metric, by="label")
    return between([Pair(now=sides[0], then=sides[1])], rules, metric=metric)


def one_run(named: str) -> Results:
    """Return the run that `results/fp8` (its latest) or `results/fp8@RUN` names.

    Raises:
        ExperimentError: there is no such run, or the path holds several experiments.
    """
    path, _, run = named.partition("@")
    latest = latest_runs(path)
    if len(latest) > 1:
        raise ExperimentError(f"{path}: several experiments; name one of them, as {path}/NAME")
    everything = results(path)
    known = sorted(str(note["run"]) for note in everything.notes)
    chosen = [one for one in known if one.startswith(run)] if run else latest
    if len(chosen) != 1:
        listed = ", ".join(known)
        raise ExperimentError(f"{named}: names {len(chosen)} runs; there are {listed}")
    return results(path, runs=chosen, wanted=wanted)


def exit_code(found: Between) -> int:
    """Return 1 for a regression, 0 when every comparison has a verdict.

    Raises:
        NotEnoughData: none is worse and some have no verdict.
    """
    if "worse" in found.words:
        return FAILED
    if not found.judged or "not enough data" in found.words:
        raise NotEnoughData(
            "not enough data for a verdict. Boot 5 times in each run with a pinned cell"
            " [engines.reference] in both, or put both cells into one experiment"
        )
    return DONE


@click.command("compare")
@click.argument("earlier")
@click.argument("later")
@click.option("--metric", type=click.Choice(get_args(Metric)), default="output_tokens_per_s")
@click.option(
    "--margin-ratio", type=click.FloatRange(min=0, min_open=True), default=0.03, show_default=True
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "csv", "json"]),
    default="text",
    show_default=True,
)
def command(earlier: str, later: str, metric: str, margin_ratio: float, form: str) -> None:
    """Hold the run LATER against the run EARLIER, cell by cell; PATH is its latest, PATH@RUN one.

    \b
    runner compare results/fp8@2026-12-01 results/fp8
    """
    try:
        sys.exit(_compare(earlier, later, metric, margin_ratio, form))
    except RunnerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)


def _compare(earlier: str, later: str, metric: str, margin_ratio: float, form: str) -> int:
    then, now = one_run(earlier), one_run(later)
    if (then.folders, then.runs) == (now.folders, now.runs):
        raise ExperimentError(f"{earlier} and {later} are the same run; name two, as PATH@RUN")
    found = compared(then, now, metric=metric, margin_ratio=margin_ratio)
    shown = table(found, (_name(then), _name(now)), metric)
    if shown is None:
        raise NotEnoughData(f"{earlier} and {later} have no cell and load in common")
    about = Table(name="compare", title="Later run over earlier run", order=0, build=lambda _: None)
    if form in {"text", "markdown"}:
        for line in labels(now):
            click.echo(f"{line}\n")
    click.echo(render(about, shown, form), nl=False)  # type: ignore[arg-type]
    return exit_code(found)


def _name(of: Results) -> str:
    [run] = of.runs or ("run",)
    return run
