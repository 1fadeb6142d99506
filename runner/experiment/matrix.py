"""The points of a matrix: product of axes, zipped axes, exclusions, inclusions. Pure."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runner.experiment import Experiment

Point = dict[str, Any]
"""Values of one cell by axis; the axis `engine` names a section of the file."""


def points_of(experiment: Experiment) -> list[Point]:
    """Return the points of an experiment; `engine` is the slowest axis unless written elsewhere."""
    matrix = experiment.matrix
    axes = matrix.axes
    if "engine" not in axes and not any("engine" in group for group in matrix.zip):
        axes = {"engine": list(experiment.engines), **axes}
    only = next(iter(experiment.engines))
    included = [{"engine": only, **point} for point in experiment.include]
    return points(axes, matrix.zip, experiment.exclude, included)


def points(
    axes: Mapping[str, Sequence[Any]],
    zips: Iterable[Mapping[str, Sequence[Any]]] = (),
    exclude: Iterable[Mapping[str, Any]] = (),
    include: Iterable[Mapping[str, Any]] = (),
) -> list[Point]:
    """Return every point: product of the axes and zipped groups, less excluded, plus included.

    Axes vary slowest first, as written. A zipped group is one factor whose axes move together.
    Included points come last and are never excluded. No point comes twice.
    """
    factors = [[{axis: value} for value in values] for axis, values in axes.items()]
    factors += [_rows(group) for group in zips]
    product = ([*choice] for choice in itertools.product(*factors))
    merged = [{axis: value for part in parts for axis, value in part.items()} for parts in product]
    drop = list(exclude)
    kept = [point for point in merged if not any(matches(point, rule) for rule in drop)]
    return _unique([*kept, *(dict(point) for point in include)])


def matches(point: Mapping[str, Any], rule: Mapping[str, Any]) -> bool:
    """Tell whether a point has every value of a rule; a list in the rule means any of them."""
    return all(
        axis in point and (point[axis] in value if _is_list(value) else point[axis] == value)
        for axis, value in rule.items()
    )


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _rows(group: Mapping[str, Sequence[Any]]) -> list[Point]:
    return [dict(zip(group, row, strict=True)) for row in zip(*group.values(), strict=True)]


def _unique(all_points: Iterable[Point]) -> list[Point]:
    return list({json.dumps(point, sort_keys=True): point for point in all_points}.values())
