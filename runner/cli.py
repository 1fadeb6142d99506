"""The command line: the only file that prints, and that turns errors into exit codes."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, NoReturn

import click

from runner.errors import INTERRUPTED, RunnerError

RESULTS = click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder of the results.",
)
EXPERIMENT = click.argument("file", type=click.Path(path_type=Path))
REHEARSE = click.option(
    "--rehearse", is_flag=True, help="Lay the file's [rehearse] table over the rest."
)
GPU = click.option(
    "--gpu", metavar="NAME", help="GPU profile to simulate, or the path of its file."
)
SIMULATE = click.option("--simulate", is_flag=True, help="Start nothing: simulate every engine.")


class Commands(click.Group):
    """The commands; those that live beside what they do are imported when they are named."""

    beside: ClassVar = {
        "audit": "runner.audit",
        "calibrate": "runner.calibrate",
        "clean": "runner.owners.clean",
        "compare": "runner.sides.compare",
        "export": "runner.stored.export",
        "nightly": "runner.nights.nightly",
        "scrape": "runner.scrape",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names, sorted."""
        return sorted([*super().list_commands(ctx), *self.beside])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name."""
        if cmd_name not in self.beside:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(self.beside[cmd_name]).command
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="runner")
def main() -> None:
    """Answer one serving question honestly: a matrix of engines, restarted N times, measured.

    \b
    runner plan experiments/quickstart.toml     what would be done; starts nothing
    runner exec experiments/quickstart.toml     do what is missing, then print the tables
    runner report results/quickstart            print the tables again
    """


def answering(command: Callable[..., int | None]) -> Callable[..., None]:
    """Turn a command's errors into one message on stderr and its exit code."""

    @wraps(command)
    def answered(*args: Any, **options: Any) -> None:
        try:
            sys.exit(command(*args, **options) or 0)
        except RunnerError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Interrupted: what was measured is stored; exec again goes on.", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.stderr.close()
            sys.exit(1)

    return answered


@main.command()
@EXPERIMENT
@RESULTS
@REHEARSE
@click.option("--predict", "predicts", is_flag=True, help="Print the tables to expect, simulated.")
@GPU
@answering
def plan(file: Path, results: Path, rehearse: bool, predicts: bool, gpu: str | None) -> None:
    """Print every cell and boot of FILE, with the command of each; nothing is started.

    \b
    runner plan experiments/fp8.toml
    runner plan experiments/fp8.toml --predict --gpu h100-80gb
    """
    from runner.experiment.read import read
    from runner.plan import expand
    from runner.plan.text import planned

    if gpu and not predicts:
        raise click.UsageError("--gpu goes with --predict.")
    experiment = read(file, rehearse=rehearse)
    if predicts:
        from runner.predict.tables import predicted_tables

        click.echo(predicted_tables(experiment, gpu), nl=False)
        return
    if not (results / experiment.name / "runs").is_dir():
        click.echo(planned(expand(experiment)), nl=False)
        return
    from runner.foresight import past_of

    expanded = expand(experiment)
    past = past_of(expanded, results)
    click.echo(planned(expanded, past=past.spread, next_plans=past.plans), nl=False)


@main.command(name="exec")
@EXPERIMENT
@RESULTS
@REHEARSE
@click.option("--fresh", is_flag=True, help="Open a new run even if one can be continued.")
@click.option("--retry-failed", is_flag=True, help="Repeat the boots that failed.")
@click.option("--check-flags", is_flag=True, help="First hold all flags against each image's help.")
@click.option("--audit", is_flag=True, help="Hold the client against the wire (CAP_NET_RAW).")
@SIMULATE
@GPU
@answering
def execute(file: Path, results: Path, *, simulate: bool, gpu: str | None, **options: Any) -> int:
    """Do what is missing of FILE, store it, and print the tables.

    \b
    runner exec experiments/quickstart.toml
    """
    from runner.experiment.read import read
    from runner.experiment.stand_in import stood_in
    from runner.plan import expand
    from runner.progress import watching
    from runner.report import report
    from runner.run import execute
    from runner.stored.frames import results as read_results
    from runner.world import World

    stop_on_signals()
    if gpu and not simulate:
        raise click.UsageError("--gpu goes with --simulate.")
    experiment = read(file, rehearse=options.pop("rehearse"))
    plan = expand(stood_in(experiment, gpu) if simulate else experiment)
    with watching(sys.stderr, live=sys.stderr.isatty()) as watch:
        summary = execute(plan, World(), results, watch=watch, **options)
    click.echo(report(read_results(summary.folder, runs=[summary.run_id])))
    click.echo(summary.text)
    return summary.exit_code


@main.command()
@click.argument("path", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--table", "names", multiple=True, help="Only this table; may be repeated.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "html", "csv", "json", "parquet"]),
    default="text",
    show_default=True,
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for parquet.")
@click.option("--run", "runs", multiple=True, help="Only this run; the latest by default.")
@click.option("--all-runs", is_flag=True, help="Every run, side by side.")
@click.option("--against", type=click.Choice(["article"]), help="Published figures beside ours.")
@answering
def report(path: Path, form: Any, out: Path | None, **options: Any) -> None:
    """Print the tables of PATH: a results folder, or one experiment's folder in it.

    \b
    runner report results/quickstart --table ttft --format markdown
    runner report results --format parquet --out tables
    """
    from runner.report import report, write_parquet
    from runner.stored.frames import latest_runs
    from runner.stored.frames import results as read_results
    from runner.tables.columns import wanted

    if (form == "parquet") != (out is not None):
        raise click.UsageError("--format parquet and --out FOLDER go together.")
    chosen = None if options["all_runs"] else (options["runs"] or latest_runs(path))
    found = read_results(path, runs=chosen, wanted=wanted)
    names = (*options["names"], *([options["against"]] if options["against"] else []))
    if out is None:
        click.echo(report(found, names=names, form=form), nl=False)
        return
    for written in write_parquet(found, out, names):
        click.echo(str(written))


def stop_on_signals() -> None:
    """Let the first SIGINT, SIGTERM or SIGHUP end a run: stored, and nothing left running.

    Later ones are ignored: they would cut short what the first one asked for.
    """
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, stop)
