"""What a file of the right form can still get wrong: names, axes, and keys that contradict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import engines
from engines.sim import options
from runner.experiment import EngineKeys, Experiment
from runner.experiment.aa import again_complaints
from runner.experiment.cell_checks import cell_complaints, cores_complaints, folder_complaints
from runner.experiment.complaints import Complaint, suggestion
from runner.experiment.load_checks import load_complaints
from runner.experiment.matrix import points_of
from runner.experiment.matrix_checks import matrix_complaints, size_complaints
from runner.experiment.places import WORD, Place
from runner.experiment.stages import stage_complaints


def complaints_of(experiment: Experiment, *, whole: bool = True) -> list[Complaint]:
    """Return every complaint about an experiment whose keys and types are right.

    Args:
        experiment: what was read.
        whole: nothing of the file was left out; else no complaint says that something is missing.
    """
    found = [
        *_sections(experiment),
        *matrix_complaints(experiment),
        *_tables(experiment),
        *load_complaints(experiment.loads, experiment.timeouts),
        *_stages(experiment),
        *again_complaints(experiment),
    ]
    if whole and not found:
        found = list(size_complaints(experiment))
        found = found or [
            *_shared(experiment),
            *_needed(experiment),
            *_uncompiled(experiment),
        ]
    return found


def kind_of(name: str, section: EngineKeys) -> str:
    """Return which engine a section starts."""
    return section.engine or name


def _sections(experiment: Experiment) -> Iterator[Complaint]:
    for name, section in experiment.engines.items():
        place: Place = ("engines", name)
        if not WORD.fullmatch(name):
            yield Complaint(place=place, sentence="a section's name is letters, digits, '_.-'")
        if kind_of(name, section) not in engines.names():
            yield _unknown_engine(place, name, section)
        if section.launcher == "attach" and not section.url:
            yield Complaint(place=place, sentence='attach needs a server: url = "http://host:port"')
        if section.url is not None:
            yield from _url((*place, "url"), section)
        if section.version is not None and engines.version_of(section.version) is None:
            sentence = f'is no release; write it as "0.10.2", found "{section.version}"'
            yield Complaint(place=(*place, "version"), sentence=sentence)
        if section.simulate is not None:
            yield from _simulation(place, section)


def _stages(experiment: Experiment) -> Iterator[Complaint]:
    sections = experiment.engines.items()
    attached = [name for name, section in sections if section.launcher == "attach"]
    matrix = experiment.matrix
    yield from stage_complaints(
        experiment.stages, matrix.axes, matrix.zip, experiment.include, attached
    )


def _unknown_engine(place: Place, name: str, section: EngineKeys) -> Complaint:
    if section.engine:
        hint = suggestion(section.engine, engines.names())
        return Complaint(place=(*place, "engine"), sentence=f"unknown engine. {hint}")
    hint = suggestion(name, engines.names())
    other = 'or keep the name and write engine = "..." inside the section'
    return Complaint(place=place, sentence=f"unknown engine. {hint} ({other})")


def _url(place: Place, section: EngineKeys) -> Iterator[Complaint]:
    if section.launcher != "attach":
        yield Complaint(place=place, sentence='a url goes with launcher = "attach"')
    try:
        parts = urlsplit(section.url or "")
        good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        yield Complaint(place=place, sentence='is no address; write "http://host:port"')


def _simulation(place: Place, section: EngineKeys) -> Iterator[Complaint]:
    if section.launcher == "attach":
        yield Complaint(place=place, sentence="a server that is attached cannot be simulated")
    try:
        options.read(json.dumps(section.simulate))
    except (ValueError, TypeError) as error:
        yield Complaint(place=(*place, "simulate"), sentence=str(error).removeprefix("--simulate "))


def _tables(experiment: Experiment) -> Iterator[Complaint]:
    """Judge the tables that speak of cells, of the caches and of the client."""
    yield from cell_complaints(("common",), experiment.common)
    for name, section in experiment.engines.items():
        yield from cell_complaints(("engines", name), section)
        if "" in section.program:
            sentence = "holds an empty word; leave it out"
            yield Complaint(place=("engines", name, "program"), sentence=sentence)
    yield from folder_complaints(("cache", "models"), experiment.cache.models)
    yield from folder_complaints(("cache", "folder"), experiment.cache.folder)
    yield from cores_complaints(("client", "cpus"), experiment.client.cpus)


def _shared(experiment: Experiment) -> Iterator[Complaint]:
    """Complain of what different engines cannot share: a memory fraction, raw flags."""
    kinds = {kind_of(name, keys) for name, keys in experiment.engines.items()}
    if len(kinds) < 2:
        return
    memory = experiment.common.memory
    places: list[Place] = [("common", "memory")] if memory and memory.fraction else []
    axis = experiment.matrix.axes.get("memory", ())
    places += [("matrix", "memory")] if any("fraction" in value for value in axis) else []
    for number, group in enumerate(experiment.matrix.zip):
        if "engine" not in group and any("fraction" in one for one in group.get("memory", ())):
            places.append(("matrix", "zip", number, "memory"))
    for place in places:
        sentence = "one memory fraction cannot serve engines that mean different things by it"
        yield Complaint(place=place, sentence=f"{sentence}; move it to [engines.NAME]")
    if experiment.common.flags:
        sentence = "raw flags are one engine's own words; move them to [engines.NAME.flags]"
        yield Complaint(place=("common", "flags"), sentence=sentence)


def _uncompiled(experiment: Experiment) -> Iterator[Complaint]:
    """Complain of `compile` where no container and no simulation would heed it."""
    matrix = experiment.matrix
    deaf = [name for name, section in experiment.engines.items() if _keeps_its_own(section)]
    places: list[Place] = []
    if experiment.common.compile and len(deaf) == len(experiment.engines):
        places.append(("common", "compile"))
    places += [("engines", name, "compile") for name in deaf if experiment.engines[name].compile]
    if any(point["engine"] in deaf and "compile" in point for point in points_of(experiment)):
        places += [("matrix", "compile")] if "compile" in matrix.axes else [("matrix",)]
    for place in places:
        sentence = "only containers get a folder of compiled kernels"
        advice = "leave it out, and set the server's own cache by its variables or flags"
        yield Complaint(place=place, sentence=f"{sentence}; {advice}")


def _keeps_its_own(section: EngineKeys) -> bool:
    return section.launcher in {"process", "attach"} and section.simulate is None


def _needed(experiment: Experiment) -> Iterator[Complaint]:
    """Complain of each section that has a cell without a model, or a container without image."""
    without_model: dict[str, None] = {}
    without_image: dict[str, None] = {}
    for point in points_of(experiment):
        name = point["engine"]
        section = experiment.engines[name]
        if not (point.get("model") or section.model or experiment.common.model):
            without_model[name] = None
        image = point.get("image") or section.image or experiment.common.image
        default = "docker" if section.simulate is None else "process"
        if not image and (section.launcher or default) == "docker":
            without_image[name] = None
    for name in without_model:
        sentence = 'no model; write model = "..." here or in [common]'
        yield Complaint(place=("engines", name), sentence=sentence)
    for name in without_image:
        sentence = 'no image; write image = "name:tag", or launcher = "process"'
        yield Complaint(place=("engines", name), sentence=sentence)
