"""What a file of the right form can still get wrong: names, axes, and keys that contradict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

import engines
from runner import workloads
from runner.complaints import Complaint, Place, of_validation, suggestion
from runner.experiment import CellKeys, EngineKeys, Experiment, LoadKeys
from runner.levels import load_ids

_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL", re.IGNORECASE)
_WORD = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
AXES = frozenset(CellKeys.model_fields) | {"engine"}


def complaints_of(experiment: Experiment) -> list[Complaint]:
    """Return every complaint about an experiment whose keys and types are right."""
    found = [
        *_engines(experiment),
        *_axes(experiment),
        *_points(experiment),
        *_secrets(experiment),
        *_loads(experiment),
    ]
    return found or [*_shared_fraction(experiment), *_needed(experiment)]


def kind_of(name: str, section: EngineKeys) -> str:
    """Return which engine a section starts."""
    return section.engine or name


def _engines(experiment: Experiment) -> Iterator[Complaint]:
    for name, section in experiment.engines.items():
        place: Place = ("engines", name)
        if not _WORD.match(name):
            yield Complaint(place=place, sentence="a section's name is letters, digits, '_.-'")
        if kind_of(name, section) not in engines.names():
            hint = suggestion(kind_of(name, section), engines.names())
            other = "another name needs `engine = ...` inside the section"
            yield Complaint(place=place, sentence=f"unknown engine. {hint} ({other})")
        if section.launcher == "attach" and not section.url:
            yield Complaint(place=place, sentence='attach needs a server: url = "http://host:port"')
        if section.url and section.launcher != "attach":
            yield Complaint(place=(*place, "url"), sentence='a url goes with launcher = "attach"')


def _axes(experiment: Experiment) -> Iterator[Complaint]:
    for axis, values in experiment.matrix.axes.items():
        yield from _axis(("matrix", axis), axis, values, experiment)
    for number, group in enumerate(experiment.matrix.zip):
        place: Place = ("matrix", "zip", number)
        for axis, values in group.items():
            yield from _axis((*place, axis), axis, values, experiment)
        if len({len(values) for values in group.values()}) > 1:
            lengths = ", ".join(f"{axis} has {len(values)}" for axis, values in group.items())
            yield Complaint(place=place, sentence=f"zipped lists must be of one length: {lengths}")


def _axis(place: Place, axis: str, values: Any, experiment: Experiment) -> Iterator[Complaint]:
    if axis not in AXES:
        yield Complaint(place=place, sentence=f"unknown axis. {suggestion(axis, AXES)}")
    elif not isinstance(values, (list, tuple)):
        yield Complaint(place=place, sentence=f"an axis is a list; write {axis} = [{values!r}]")
    elif not values:
        yield Complaint(place=place, sentence="the axis is empty, so the matrix has no cell")
    else:
        for number, value in enumerate(values):
            yield from _value((*place, number), axis, value, experiment)


def _points(experiment: Experiment) -> Iterator[Complaint]:
    axes = set(experiment.matrix.axes).union(*experiment.matrix.zip) | {"engine"}
    for number, rule in enumerate(experiment.exclude):
        for axis in rule:
            if axis not in axes:
                hint = suggestion(axis, axes)
                sentence = f"it is no axis of this matrix. {hint}"
                yield Complaint(place=("exclude", number, axis), sentence=sentence)
    for number, point in enumerate(experiment.include):
        if "engine" not in point and len(experiment.engines) > 1:
            yield Complaint(place=("include", number), sentence="is missing; write `engine = ...`")
        for axis, value in point.items():
            place: Place = ("include", number, axis)
            if axis not in AXES:
                yield Complaint(place=place, sentence=f"unknown key. {suggestion(axis, AXES)}")
            else:
                yield from _value(place, axis, value, experiment)


def _value(place: Place, axis: str, value: Any, experiment: Experiment) -> Iterator[Complaint]:
    if axis == "engine":
        if value not in experiment.engines:
            hint = suggestion(str(value), experiment.engines)
            sentence = f"there is no section [engines.{value}]. {hint}"
            yield Complaint(place=place, sentence=sentence)
        return
    try:
        CellKeys.model_validate({axis: value})
    except ValidationError as error:
        for complaint in of_validation(error, CellKeys):
            yield Complaint(place=place + complaint.place[1:], sentence=complaint.sentence)


def _secrets(experiment: Experiment) -> Iterator[Complaint]:
    sections: list[tuple[Place, Mapping[str, str]]] = [(("common",), experiment.common.env)]
    sections += [(("engines", name), keys.env) for name, keys in experiment.engines.items()]
    for place, env in sections:
        for name in env:
            if _SECRET.search(name):
                yield Complaint(
                    place=(*place, "env", name),
                    sentence="a secret's value never stands in a file; export it and write "
                    f'secrets = ["{name}"]',
                )


def _loads(experiment: Experiment) -> Iterator[Complaint]:
    for number, load in enumerate(experiment.loads):
        yield from _load(("loads", number), load)
    seen: set[str] = set()
    for number, load in enumerate(experiment.loads):
        ids = set(load_ids(load))
        if ids & seen:
            sentence = f"{min(ids & seen)} is there already; tell them apart with `name = ...`"
            yield Complaint(place=("loads", number), sentence=sentence)
        seen |= ids


def _load(place: Place, load: LoadKeys) -> Iterator[Complaint]:
    if load.name is not None and not _WORD.match(load.name):
        yield Complaint(place=(*place, "name"), sentence="a name is letters, digits, '_.-'")
    if load.workload not in workloads.names():
        hint = suggestion(load.workload, workloads.names())
        yield Complaint(place=(*place, "workload"), sentence=f"unknown workload. {hint}")
        return
    spec = workloads.get(load.workload).spec
    try:
        spec.model_validate(load.model_extra or {})
    except ValidationError as error:
        for complaint in of_validation(error, spec, at=place):
            yield _with_all_keys(complaint, spec)


def _with_all_keys(complaint: Complaint, spec: type[workloads.Spec]) -> Complaint:
    """Suggest among the workload's keys and those of every load."""
    if not complaint.sentence.startswith("unknown key"):
        return complaint
    known = {*spec.model_fields, *LoadKeys.model_fields}
    hint = suggestion(str(complaint.place[-1]), known)
    return Complaint(place=complaint.place, sentence=f"unknown key. {hint}")


def _shared_fraction(experiment: Experiment) -> Iterator[Complaint]:
    kinds = {kind_of(name, keys) for name, keys in experiment.engines.items()}
    if len(kinds) < 2:
        return
    memory = experiment.common.memory
    places: list[Place] = [("common", "memory")] if memory and memory.fraction else []
    axis = experiment.matrix.axes.get("memory", ())
    places += [("matrix", "memory")] if any("fraction" in value for value in axis) else []
    for place in places:
        sentence = "one memory fraction cannot serve engines that mean different things by it"
        yield Complaint(place=place, sentence=f"{sentence}; move it to [engines.NAME]")


def _needed(experiment: Experiment) -> Iterator[Complaint]:
    varied = set(experiment.matrix.axes).union(*experiment.matrix.zip)
    for name, section in experiment.engines.items():
        place: Place = ("engines", name)
        if not (section.model or experiment.common.model or "model" in varied):
            yield Complaint(place=place, sentence='no model; write model = "..." in [common]')
        simulated = section.simulate is not None
        in_docker = section.launcher == "docker" or (section.launcher is None and not simulated)
        if in_docker and not (section.image or experiment.common.image or "image" in varied):
            sentence = 'no image; write image = "...", or launcher = "process"'
            yield Complaint(place=place, sentence=sentence)
