"""The plan: cells x boots in randomised complete blocks, and what to warn of. Pure, no Docker."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engines import Arguments
from runner.boots.asks import refusal_of
from runner.experiment import Experiment
from runner.experiment.aa import AGAIN
from runner.experiment.levels import Load, loads_of
from runner.experiment.night import REFERENCE
from runner.experiment.pairs import check_compared
from runner.plan.cautions import cautions, load_cautions
from runner.plan.cells import Cell, cells_of, is_later
from runner.plan.identity import digest
from runner.plan.stages import NOMINAL_TOKENS, matched


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBoot:
    """One server life to be.

    Attributes:
        cell: whose.
        boot: its number within the cell, from 0.
        order: its place in the whole run, from 0.
        block: the block it belongs to: one boot of every cell.
    """

    cell: Cell
    boot: int
    order: int
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inapplicable:
    """A cell that its engine cannot express, with the reasons."""

    cell: Cell
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything an experiment will do, before anything is started.

    Attributes:
        experiment: the file it comes from.
        cells: cells that will be booted, in the order of the matrix.
        inapplicable: cells that will not, each with its reasons.
        boots: every boot in the order it will run.
        loads: what each boot is asked, in order.
        warnings: sentences that a reader should see before the box is used.
        second: its second stage; before the first is stored, with a capacity that stands for the
            one to be seen. None where there is no stage.
        second_block: number of the first block of its second stage.
    """

    experiment: Experiment
    cells: tuple[Cell, ...]
    inapplicable: tuple[Inapplicable, ...]
    boots: tuple[PlannedBoot, ...]
    loads: tuple[Load, ...]
    warnings: tuple[str, ...]
    second: Plan | None = None
    second_block: int = 0

    @property
    def every_boot(self) -> tuple[PlannedBoot, ...]:
        """Return the boots of all its stages."""
        return (*self.boots, *(self.second.boots if self.second else ()))

    @property
    def every_cell(self) -> tuple[Cell, ...]:
        """Return all cells, those that will not be booted too."""
        return (*self.cells, *(entry.cell for entry in self.inapplicable))

    @property
    def content_id(self) -> str:
        """Return the identity of what is asked: a run of another content is another run.

        The question, timeouts, the number of boots and display options are no part of it.
        """
        loads = [load.asked for load in self.loads]
        client = self.experiment.client.model_dump()
        cells = sorted(cell.cell_id for cell in self.cells)
        asked: dict[str, object] = {"cells": cells, "loads": loads, "client": client}
        if stages := [stage.model_dump() for stage in self.experiment.stages]:
            asked |= {"stages": stages}
        asked |= {"seed": self.experiment.seed, "compile": self.experiment.cache.compile}
        return digest({**asked, "rehearsal": self.experiment.rehearsal})


def expand(experiment: Experiment, *, nightly: bool = False) -> Plan:
    """Return the plan of an experiment.

    Args:
        experiment: what was read.
        nightly: blocks are run one by one: those of a second stage are counted on from the first's,
            and the pinned cell stands in them too.

    Raises:
        ExperimentError: `[compare]` names a cell or a load that there is not.
    """
    if not experiment.stages:
        plan = _expand(experiment)
    else:
        first, later = experiment.stages
        begins = experiment.boots if nightly else 0
        second = _expand(matched(experiment, NOMINAL_TOKENS), later.name, first_block=begins)
        plan = replace(_expand(experiment, first.name), second=second, second_block=begins)
    if experiment.compare is not None:
        known = [plan, *([plan.second] if plan.second else [])]
        cells = [cell for one in known for cell in one.every_cell if cell.name != AGAIN]
        labels = [cell.label for cell in cells]
        levels = [load.load for load in plan.loads if load.range is None]
        check_compared(experiment.compare, labels, levels)
    return plan


def second_stage(plan: Plan, kv_tokens: int) -> Plan:
    """Return the second stage of a plan, now that the first has shown a KV capacity."""
    later = plan.experiment.stages[-1]
    return _expand(
        matched(plan.experiment, kv_tokens),
        later.name,
        after=len(plan.boots),
        first_block=plan.second_block,
    )


def _expand(experiment: Experiment, stage: str = "", after: int = 0, first_block: int = 0) -> Plan:
    resolved = [
        (cell, cell.arguments("127.0.0.1", cell.engine.port))
        for cell in cells_of(experiment, stage)
    ]
    loads = tuple(load for keys in experiment.loads for load in loads_of(keys))
    why_not = {cell.cell_id: _refusals(cell, found, loads) for cell, found in resolved}
    refused = [(cell, why_not[cell.cell_id]) for cell, _ in resolved if why_not[cell.cell_id]]
    cells = tuple(cell for cell, _ in resolved if not why_not[cell.cell_id])
    notes = [(cell, note) for cell, found in resolved if cell in cells for note in found.notes]
    booted = _staged(cells, experiment, stage, first_block)
    return Plan(
        experiment=experiment,
        cells=cells,
        inapplicable=tuple(Inapplicable(cell=cell, reasons=why) for cell, why in refused),
        boots=tuple(_boots(booted, experiment, after, first_block)),
        loads=loads,
        warnings=(*cautions(experiment, cells, notes), *load_cautions(loads, cells)),
    )


def _refusals(cell: Cell, found: Arguments, loads: Sequence[Load]) -> tuple[str, ...]:
    """Return why an engine cannot express a cell, or cannot be asked its loads."""
    asked = (refusal_of(load, cell.engine) for load in loads)
    return (*found.refusals, *dict.fromkeys(why for why in asked if why))


def block_order(cells: tuple[Cell, ...], block: int, seed: int) -> list[Cell]:
    """Return the cells in the order drawn for a block; earlier blocks never change it."""
    order = sorted(cells, key=lambda cell: cell.cell_id)  # the order in the file means nothing
    random.Random(f"{seed}/order/{block}").shuffle(order)  # noqa: S311 - an order, not a secret
    return order


def _staged(
    cells: tuple[Cell, ...], experiment: Experiment, stage: str, first_block: int
) -> tuple[Cell, ...]:
    """Return the cells that boot in a stage: the pinned one once, or in each block of a night."""
    if not is_later(experiment, stage) or first_block:
        return cells
    return tuple(cell for cell in cells if cell.name != REFERENCE)


def _boots(
    cells: tuple[Cell, ...], experiment: Experiment, order: int, first_block: int
) -> Iterator[PlannedBoot]:
    again = experiment.aa.boots if experiment.aa else 0
    for number in range(experiment.boots):
        block = first_block + number
        for cell in block_order(cells, block, experiment.seed):
            if (cell.launcher == "attach" and block > 0) or (
                cell.name == AGAIN and number >= again
            ):
                continue
            boot = block if cell.name == REFERENCE else number
            yield PlannedBoot(cell=cell, boot=boot, order=order, block=block)
            order += 1
