"""What a reader of a plan should know before the box is used. Pure sentences, each with advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner import workloads
from runner.boots.search import requests_for
from runner.experiment import Experiment
from runner.experiment.levels import Load
from runner.experiment.matrix import matches, points_of
from runner.plan.cells import Cell
from runner.workloads.lengths import Distribution, longest

_FEW_FOR_P99 = 100
"""A p99 of fewer requests is a maximum (DESIGN of the tables)."""


def cautions(
    experiment: Experiment, cells: Sequence[Cell], notes: Sequence[tuple[Cell, str]]
) -> Iterator[str]:
    """Yield the warnings of a plan.

    Args:
        experiment: what is asked.
        cells: the cells that will be booted.
        notes: what each cell's engine says of what it is asked.
    """
    if not cells:
        yield "no cell is left to boot: every one is inapplicable, for the reasons above"
    if experiment.boots == 1:
        yield "one boot of each cell: every figure will be labelled single; write boots = 3 or more"
    yield from _idle_rules(experiment)
    yield from _attached(cells)
    yield from _told(notes)


def load_cautions(loads: Sequence[Load], cells: Sequence[Cell]) -> Iterator[str]:
    """Yield what is doubtful about loads: too few requests, or more than a cell is sized for."""
    for load in loads:
        if load.range is not None:
            yield from _searched(load)
            yield from _too_long(load, cells)
            continue
        timed = workloads.get(load.workload).timed
        if timed and load.requests is not None and load.requests < _FEW_FOR_P99:
            yield (
                f"{load.load}: {load.requests} requests are too few for a p99; the tables will show"
                " the maximum. Write requests = { per_stream = ..., at_least = 100 }"
            )
        if load.requests is not None and load.in_flight and load.requests < 2 * load.in_flight:
            yield (
                f"{load.load}: {load.requests} requests are less than two for each stream, so most"
                " of the window is ramp. Write requests = { per_stream = 4, at_least = 100 }"
            )
        yield from _too_long(load, cells)
        yield from _queued(load, cells)


def _searched(load: Load) -> Iterator[str]:
    """Yield what is doubtful about a search: windows too small for the quantile that it asks."""
    search = load.keys.search
    needed = requests_for(search.slo.quantile) if search is not None else 0
    if load.requests is not None and load.requests < needed:
        yield (
            f"{load.load}: a window of {load.requests} requests may miss the slow ones, so that a"
            f" level above the capacity meets by chance; {needed} show them with 95 %"
        )


def _too_long(load: Load, cells: Sequence[Cell]) -> Iterator[str]:
    given, wanted = (getattr(load.spec, key, None) for key in ("input_tokens", "output_tokens"))
    if not (isinstance(given, (int, Distribution)) and isinstance(wanted, (int, Distribution))):
        return
    most = longest(given) + longest(wanted)
    short = [cell for cell in cells if (cell.keys.context_tokens or most) < most]
    if short:
        yield (
            f"{load.load}: {longest(given)} + {longest(wanted)} tokens do not fit context_tokens ="
            f" {short[0].keys.context_tokens} of {_named(short)}; such a request will be refused"
        )


def _queued(load: Load, cells: Sequence[Cell]) -> Iterator[str]:
    streams = load.in_flight or 0
    small = [cell for cell in cells if (cell.keys.max_running or streams) < streams]
    if small:
        yield (
            f"{load.load}: more in flight than max_running = {small[0].keys.max_running} of"
            f" {_named(small)}; the others wait in the server's queue, and TTFT counts that"
        )


def _idle_rules(experiment: Experiment) -> Iterator[str]:
    """Yield exclusions that match nothing: a slip, for nobody writes a rule to no effect."""
    if not experiment.exclude:
        return
    everything = points_of(experiment.model_copy(update={"exclude": ()}))
    for number, rule in enumerate(experiment.exclude):
        if not any(matches(point, rule) for point in everything):
            yield f"exclude[{number}] matches no cell: {rule}"


def _attached(cells: Sequence[Cell]) -> Iterator[str]:
    attached = [cell for cell in cells if cell.launcher == "attach"]
    for cell in attached:
        yield f"{cell.label}: a server that is attached is never restarted: one boot, single"
    names = [cell.name for cell in attached]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{name}: an attached server keeps its own settings, so its cells are one"


def _told(notes: Sequence[tuple[Cell, str]]) -> Iterator[str]:
    """Yield each note once, with the cells it is about."""
    about: dict[str, list[Cell]] = {}
    for cell, note in notes:
        about.setdefault(note, []).append(cell)
    for note, cells in about.items():
        yield f"{_named(cells)}: {note}"


def _named(cells: Sequence[Cell]) -> str:
    """Return the labels of a few cells, or the sections of many with their counts."""
    if len(cells) <= 2:
        return ", ".join(cell.label for cell in cells)
    sections: dict[str, int] = {}
    for cell in cells:
        sections[cell.name] = sections.get(cell.name, 0) + 1
    return ", ".join(f"{name} ({count} cells)" for name, count in sections.items())
