"""Which cells are compared: pairs of labels, as `[compare]` asks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from runner.errors import ExperimentError
from runner.experiment import Compare
from runner.experiment.complaints import suggestion

Pair = tuple[str, str]


def pairs_of(labels: Sequence[str], asked: str | Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the pairs to compare, each the one that is judged over the one it is held against.

    Args:
        labels: the cells as `runner plan` names them, in the order of the matrix.
        asked: `neighbours` (cells that differ in one axis, or in the engine alone), `first` (each
            against the first cell), `all`, or pairs of labels.

    Raises:
        ExperimentError: a label names no cell.
    """
    if not isinstance(asked, str):
        return tuple(_known(pair, labels) for pair in asked)
    pairs = [(later, earlier) for earlier, later in combinations(labels, 2)]
    if asked == "first":
        return tuple(pair for pair in pairs if pair[1] == labels[0])
    return tuple(pairs) if asked == "all" else tuple(pair for pair in pairs if _neighbours(*pair))


def check_compared(compare: Compare, labels: Sequence[str], loads: Sequence[str]) -> None:
    """Refuse a `[compare]` that names what there is not.

    Raises:
        ExperimentError: a pair or a load of it is unknown.
    """
    pairs_of(labels, compare.pairs)
    for load in compare.loads:
        if load not in loads:
            hint = suggestion(load, loads)
            raise ExperimentError(f'compare.loads: no load is called "{load}". {hint}')


def _neighbours(one: str, other: str) -> bool:
    """Tell whether two cells differ in one axis, the engine being one."""
    ours, theirs = _axes(one), _axes(other)
    return sum(ours.get(axis) != theirs.get(axis) for axis in {*ours, *theirs}) == 1


def _axes(label: str) -> dict[str, str]:
    engine, *axes = label.split(" ")
    return {"": engine} | {axis: value for axis, _, value in (word.partition("=") for word in axes)}


def _known(pair: Pair, labels: Sequence[str]) -> Pair:
    for label in pair:
        if label not in labels:
            hint = suggestion(label, labels)
            raise ExperimentError(f'compare.pairs: no cell is called "{label}". {hint}')
    return pair[0], pair[1]
