"""What the matrix can still get wrong: axes, zips, inclusions and exclusions, and its size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from runner.experiment import CellKeys, Experiment
from runner.experiment.cell_checks import cell_complaints
from runner.experiment.complaints import Complaint, findings_of, suggestion
from runner.experiment.matrix import points_of
from runner.experiment.places import Place

AXES: Final = frozenset(CellKeys.model_fields) | {"engine"}
MOST_BOOTS: Final = 100_000
"""More would take years; a product this large is a slip of the pen."""


def matrix_complaints(experiment: Experiment) -> Iterator[Complaint]:
    """Yield complaints about the axes, the zips, and what is included or excluded."""
    yield from _axes(experiment)
    yield from _excluded(experiment)
    yield from _included(experiment)


def size_complaints(experiment: Experiment) -> Iterator[Complaint]:
    """Complain of a product too large before anything multiplies it out, or of an empty one."""
    lengths = [len(values) for values in experiment.matrix.axes.values()]
    lengths += [len(next(iter(group.values()))) for group in experiment.matrix.zip]
    varied = set(experiment.matrix.axes).union(*experiment.matrix.zip)
    lengths += [] if "engine" in varied else [len(experiment.engines)]
    points = math.prod(lengths) + len(experiment.include)
    if points * experiment.boots > MOST_BOOTS:
        place: Place = ("boots",) if experiment.boots > points else ("matrix",)
        count = f"{points} cells x {experiment.boots} boots"
        yield Complaint(place=place, sentence=f"{count} are over {MOST_BOOTS}; ask for fewer")
    elif not points_of(experiment):
        yield Complaint(place=("exclude",), sentence="every cell is excluded; keep at least one")


def _axes(experiment: Experiment) -> Iterator[Complaint]:
    groups: list[tuple[Place, Mapping[str, Any]]] = [(("matrix",), experiment.matrix.axes)]
    groups += [(("matrix", "zip", n), group) for n, group in enumerate(experiment.matrix.zip)]
    seen: dict[str, Place] = {}
    for place, group in groups:
        for axis, values in group.items():
            yield from _axis((*place, axis), axis, values, experiment)
            if axis in seen:
                yield Complaint(place=(*place, axis), sentence="this axis is in the matrix already")
            seen[axis] = place
    for number, zipped in enumerate(experiment.matrix.zip):
        yield from _zip(("matrix", "zip", number), zipped)


def _zip(place: Place, group: Mapping[str, Sequence[Any]]) -> Iterator[Complaint]:
    if not group:
        yield Complaint(place=place, sentence="the zip is empty; write two or more axes into it")
    elif len({len(values) for values in group.values()}) > 1:
        lengths = ", ".join(f"{axis} has {len(values)}" for axis, values in group.items())
        yield Complaint(place=place, sentence=f"zipped lists must be of one length: {lengths}")


def _axis(place: Place, axis: str, values: Any, experiment: Experiment) -> Iterator[Complaint]:
    if axis not in AXES:
        hint = suggestion(axis, AXES)
        yield Complaint(place=place, sentence=f"unknown axis. {hint}")
    elif not isinstance(values, (list, tuple)):
        written = json.dumps(values) if not isinstance(values, Mapping) else "{ ... }"
        yield Complaint(place=place, sentence=f"an axis is a list; write {axis} = [{written}]")
    elif not values:
        yield Complaint(place=place, sentence="the axis is empty, so the matrix has no cell")
    else:
        zipped = "zip" in place
        yield from _values(place, axis, values, experiment, once=not zipped)


def _values(
    place: Place, axis: str, values: Sequence[Any], experiment: Experiment, *, once: bool
) -> Iterator[Complaint]:
    seen: set[str] = set()
    for number, value in enumerate(values):
        yield from _value((*place, number), axis, value, experiment)
        text = json.dumps(value, sort_keys=True)
        if once and text in seen:
            yield Complaint(place=(*place, number), sentence="this value is there already")
        seen.add(text)


def _excluded(experiment: Experiment) -> Iterator[Complaint]:
    axes = set(experiment.matrix.axes).union(*experiment.matrix.zip) | {"engine"}
    for number, rule in enumerate(experiment.exclude):
        if not rule:
            sentence = "an empty exclude excludes everything; name an axis and a value"
            yield Complaint(place=("exclude", number), sentence=sentence)
        for axis, value in rule.items():
            place: Place = ("exclude", number, axis)
            if axis in axes:
                yield from _rule(place, axis, value, experiment)
            else:
                sentence = f"it is no axis of this matrix. {suggestion(axis, axes)}"
                yield Complaint(place=place, sentence=sentence)


def _included(experiment: Experiment) -> Iterator[Complaint]:
    for number, point in enumerate(experiment.include):
        if "engine" not in point and len(experiment.engines) > 1:
            names = " or ".join(f'"{name}"' for name in experiment.engines)
            sentence = f"names no engine; write engine = {names}"
            yield Complaint(place=("include", number), sentence=sentence)
        for axis, value in point.items():
            place: Place = ("include", number, axis)
            if axis in AXES:
                yield from _value(place, axis, value, experiment)
            else:
                sentence = f"unknown key. {suggestion(axis, AXES)}"
                yield Complaint(place=place, sentence=sentence)


def _rule(place: Place, axis: str, value: Any, experiment: Experiment) -> Iterator[Complaint]:
    """Judge what an exclusion names: a value, or a list that means any of its values."""
    found = list(_value(place, axis, value, experiment))
    if found and isinstance(value, list):
        found = [
            complaint
            for number, one in enumerate(value)
            for complaint in _value((*place, number), axis, one, experiment)
        ]
    yield from found


def _value(place: Place, axis: str, value: Any, experiment: Experiment) -> Iterator[Complaint]:
    if axis == "engine":
        if not isinstance(value, str) or value not in experiment.engines:
            hint = suggestion(str(value), experiment.engines)
            yield Complaint(place=place, sentence=f"there is no section [engines.{value}]. {hint}")
        return
    found = findings_of(CellKeys, {axis: value})
    found = found or list(cell_complaints((), CellKeys.model_validate({axis: value})))
    for complaint in found:
        yield Complaint(place=place + complaint.place[1:], sentence=complaint.sentence)
