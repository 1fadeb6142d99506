"""The second stage of an experiment: the cells of the first with one KV capacity. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from runner.experiment import Experiment, Memory
from runner.experiment.night import REFERENCE

NOMINAL_TOKENS: Final = 16_384
"""Stands for the capacity that stage 1 has not shown yet, where a plan only counts and asks."""

SMALLEST: Final = "smallest of stage 1"
"""What a plan prints for it."""


def matched(experiment: Experiment, kv_tokens: int) -> Experiment:
    """Return the experiment whose every cell but the pinned one is asked for one KV capacity."""
    memory = {"memory": Memory(kv_tokens=kv_tokens)}
    sections = {
        name: section if name == REFERENCE else section.model_copy(update=memory)
        for name, section in experiment.engines.items()
    }
    return experiment.model_copy(update={"engines": sections})


def smallest_kv_tokens(
    boots: Iterable[Mapping[str, Any]], cells: Mapping[str, str]
) -> tuple[int | None, str]:
    """Return the smallest capacity that complete boots stated, or None and why it is not known.

    Args:
        boots: rows of `boots`.
        cells: label of each cell of stage 1 by its id: each must have stated one.
    """
    stated: dict[str, list[int]] = {cell_id: [] for cell_id in cells}
    for row in boots:
        told = row["outcome"] == "done" and row["boot"] >= 0 and row["kv_tokens"] is not None
        if told and row["cell_id"] in stated:
            stated[row["cell_id"]].append(row["kv_tokens"])
    silent = [cells[cell_id] for cell_id, tokens in stated.items() if not tokens]
    if silent:
        return None, f"no complete boot of {', '.join(silent)} stated its KV tokens"
    return min(min(tokens) for tokens in stated.values()), ""
