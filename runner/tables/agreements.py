"""Answers of the same fixed prompts held against each other: boots of a cell, cells of a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from runner.figures.accuracy import Agreement, agreement
from runner.figures.latency import served
from runner.stored.frames import Results, once
from runner.tables.declared import declared
from runner.tables.kinds import Key
from runner.tables.measured import every_load
from runner.tables.runs import cells_of, labels_of, runs_of

WORKLOADS: Final = ("accuracy",)
LEAST_FIRST_RATIO: Final = 0.5
"""Servers of one model that round otherwise still begin most answers with the same token."""

Answers = Mapping[str, Sequence[int]]
"""Prompt -> token ids of its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The answers of one cell against others'.

    Attributes:
        load: id of the load.
        ours: the cell.
        theirs: the cell it is held against; its own, where its boots are held against the first.
        each: what each boot agrees in.
    """

    load: str
    ours: Key
    theirs: Key
    each: tuple[Agreement, ...]

    @property
    def differs(self) -> bool:
        """Tell whether in some boot most answers do not even begin alike."""
        firsts = [one.first_ratio for one in self.each]
        return any(first is not None and first < LEAST_FIRST_RATIO for first in firsts)


@once
def agreements(results: Results) -> tuple[Held, ...]:
    """Return each cell's boots against its first, and each compared pair of cells of one model."""
    answers = _answers(results)
    return tuple(
        held for run in runs_of(results) for held in _of_run(results, *run, answers.get(run, {}))
    )


def _of_run(
    results: Results, experiment: str, run: str, found: Mapping[tuple[Key, str], Sequence[Answers]]
) -> Iterator[Held]:
    for (key, load), boots in found.items():
        if len(boots) > 1:
            each = tuple(agreement(boots[0], other) for other in boots[1:])
            yield Held(load=load, ours=key, theirs=key, each=each)
    labels, cells = labels_of(results, experiment, run), cells_of(results)
    for pair in declared(results, experiment, run).pairs:
        ours, theirs = (labels[label] for label in pair)
        if cells[ours]["model"] != cells[theirs]["model"]:
            continue
        for load in [load for key, load in found if key == ours and (theirs, load) in found]:
            sides = zip(found[(ours, load)], found[(theirs, load)], strict=False)
            each = tuple(agreement(one, other) for one, other in sides)
            yield Held(load=load, ours=ours, theirs=theirs, each=each)


def _answers(results: Results) -> dict[tuple[str, str], dict[tuple[Key, str], list[Answers]]]:
    """Return the answers of each boot, by run and by cell and load; loads without are left out."""
    loads = every_load(results)
    mine: Any = loads[loads.workload.isin(WORKLOADS)]
    found: dict[tuple[str, str], dict[tuple[Key, str], list[Answers]]] = {}
    for row in pd.DataFrame(mine).to_dict("records"):
        key = (str(row["experiment"]), str(row["run"]), str(row["cell_id"]))
        answers = _of_load(results, row)
        if answers:  # a void load has no times to believe; what was answered stands
            of_run = found.setdefault(key[:2], {})
            of_run.setdefault((key, str(row["load"])), []).append(answers)
    return found


def _of_load(results: Results, row: Mapping[Any, Any]) -> Answers:
    """Return the answer to each prompt: the first where one was asked several times."""
    found: dict[str, tuple[int, Sequence[int]]] = {}
    for one in results.timelines(row):
        if served(one) and one.answer_ids is not None:
            known = found.get(one.group)
            if known is None or one.request < known[0]:
                found[one.group] = (one.request, one.answer_ids)
    return {group: ids for group, (_, ids) in found.items()}
