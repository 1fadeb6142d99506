"""Cells: one point of the matrix each, with every key merged and its flags spelled out. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import engines
from engines import Arguments, Engine, Served
from runner.experiment import Cache, CellKeys, EngineKeys, Experiment, Launch, Settings
from runner.experiment.aa import AGAIN
from runner.experiment.checks import kind_of
from runner.experiment.matrix import Point, points_of
from runner.experiment.night import REFERENCE
from runner.plan.identity import cell_id

SIMULATED_PROGRAM = ("python3", "-m", "engines.sim")
_MERGED = ("flags", "env", "mounts")


@dataclass(frozen=True, slots=True, order=True)
class HubModel:
    """A model of the hub: its repository and the revision as written, `main` by default."""

    repository: str
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One point of the matrix: what is asked of one server.

    Attributes:
        cell_id: hash of all that is asked.
        label: what tells it from the other cells, for people.
        name: the section of the file it belongs to.
        engine: which engine it starts.
        launcher: how it is started.
        keys: everything asked, sections and point merged.
        section: the section's own keys (program, URL, simulation).
        stage: name of its stage; empty where an experiment has none.
    """

    cell_id: str
    label: str
    name: str
    engine: Engine
    launcher: Launch
    keys: CellKeys
    section: EngineKeys
    stage: str = ""

    @property
    def simulated(self) -> bool:
        """Tell whether the simulated engine stands in for the engine."""
        return self.section.simulate is not None

    @property
    def offline(self) -> bool:
        """Tell whether nothing is started, and boot and loads are simulated without sockets."""
        return bool((self.section.simulate or {}).get("offline"))

    @property
    def gpus(self) -> int:
        """Return how many GPUs it gets: as asked, else one for each parallel part.

        A simulated engine needs none.
        """
        asked = self.keys.gpus
        if self.simulated:
            return 0
        if asked is None:
            return _parallel(self.keys)
        return asked if isinstance(asked, int) else len(asked)

    def keeps_compiled(self, cache: Cache) -> bool:
        """Tell whether it keeps compiled kernels from boot to boot: as asked, else as `[cache]`."""
        policy = self.keys.compile or cache.compile
        return policy == "per_cell" and self.launcher == "docker" and not self.simulated

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings asked, those without a value left out."""
        return self.keys.model_dump(include=set(Settings.model_fields), exclude_none=True)

    @property
    def model(self) -> str:
        """Return the model as written, without a revision."""
        return (self.keys.model or "").split("@")[0]

    @property
    def hub_model(self) -> HubModel | None:
        """Return the model as the hub knows it, None for one of this machine."""
        revision = (self.keys.model or "").partition("@")[2]
        return None if self.is_local_model else HubModel(self.model, revision or "main")

    @property
    def fetches_model(self) -> bool:
        """Tell whether its model is fetched from the hub before anything starts.

        What else starts (a local command, a server that runs already) fetches for itself.
        """
        real = self.launcher == "docker" and not self.simulated
        return real and self.hub_model is not None

    @property
    def served_name(self) -> str:
        """Return the name the server answers to."""
        return Path(self.model).name if self.is_local_model else self.model

    @property
    def is_local_model(self) -> bool:
        """Tell whether the model is a path of this machine."""
        return self.model.startswith(("/", "./", "../", "~"))

    @property
    def model_in_server(self) -> str:
        """Return the model as the server sees it: in a container a local one is mounted."""
        if self.is_local_model and self.launcher == "docker":
            return f"/models/{Path(self.model).name}"
        return str(Path(self.model).expanduser()) if self.is_local_model else self.model

    def served(self, host: str, port: int, revision: str | None = None) -> Served:
        """Return what its server is asked to serve at an address."""
        written = self.keys.model or ""
        return Served(
            model=self.model_in_server,
            name=self.served_name,
            host=host,
            port=port,
            settings=self.settings,
            flags=self.keys.flags,
            version=self.version,
            gpus=_parallel(self.keys) if self.simulated else self.gpus,
            revision=revision or (written.partition("@")[2] or None),
        )

    def arguments(self, host: str, port: int, revision: str | None = None) -> Arguments:
        """Return the flags and environment that this cell's settings resolve to."""
        return self.engine.arguments(self.served(host, port, revision))

    @property
    def version(self) -> engines.Version | None:
        """Return the release that will run, where file or image tell it."""
        if self.section.version:
            return engines.version_of(self.section.version)
        return self.engine.version_of_image(self.keys.image or "")


def cells_of(experiment: Experiment, stage: str = "") -> list[Cell]:
    """Return every cell of a stage of an experiment, in the order of its matrix, none twice."""
    found = points_of(experiment)
    sections = experiment.engines.items()
    kinds = {name: engines.get(kind_of(name, section)) for name, section in sections}
    labelled = zip(found, _labels(found), strict=True)
    cells = [
        _cell(experiment, point, label, kinds[point["engine"]], _stage_of(point, stage))
        for point, label in labelled
    ]
    if experiment.aa is not None and not is_later(experiment, stage):
        cells.append(_again(cells[0]))
    return list({cell.cell_id: cell for cell in cells}.values())


def _stage_of(point: Point, stage: str) -> str:
    """Return the stage that a cell belongs to: the pinned one is the same in both."""
    return "" if point["engine"] == REFERENCE else stage


def stage_label(label: str, stage: str) -> str:
    """Return a cell's label with its stage, as if that were an axis."""
    return f"{label} stage={stage}" if stage else label


def is_later(experiment: Experiment, stage: str) -> bool:
    """Tell whether a stage is the second of an experiment."""
    return bool(stage) and stage != experiment.stages[0].name


def _again(cell: Cell) -> Cell:
    """Return the same cell under the name that an A/A gives it."""
    asked = _asked(cell.name, cell.section, cell.launcher, cell.keys)
    return replace(cell, name=AGAIN, label=AGAIN, cell_id=cell_id(asked | {"name": AGAIN}))


def _cell(experiment: Experiment, point: Point, label: str, engine: Engine, stage: str) -> Cell:
    name = point["engine"]
    section = experiment.engines[name]
    keys = _merged(experiment.common, section, point)
    launcher: Launch = section.launcher or (
        "process" if section.simulate is not None and not keys.image else "docker"
    )
    later = {"stage": stage} if is_later(experiment, stage) else {}
    asked = _asked(name, section, launcher, keys) | later
    return Cell(
        cell_id=cell_id(asked),
        label=stage_label(label, stage),
        name=name,
        engine=engine,
        launcher=launcher,
        keys=keys,
        section=section,
        stage=stage,
    )


def _merged(common: CellKeys, section: EngineKeys, point: Mapping[str, Any]) -> CellKeys:
    """Lay section over common and point over both; tables of flags, env, mounts are merged."""
    layers = [
        common.model_dump(exclude_unset=True),
        section.model_dump(exclude_unset=True, include=set(CellKeys.model_fields)),
        {key: value for key, value in point.items() if key != "engine"},
    ]
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            merged[key] = {**merged.get(key, {}), **value} if key in _MERGED else value
    return CellKeys.model_validate(merged)


def _asked(name: str, section: EngineKeys, launcher: Launch, keys: CellKeys) -> dict[str, Any]:
    """Return what the identity is made of: never a display option, an expectation or a secret."""
    asked = keys.model_dump(exclude_none=True, exclude={"expect"})
    own = section.model_dump(include={"program", "url", "version", "simulate"}, exclude_none=True)
    if section.simulate is not None:
        own["simulated"] = True  # an empty `simulate` has no value that would count
    return {"name": name, "engine": kind_of(name, section), "launcher": launcher, **asked, **own}


def _parallel(keys: CellKeys) -> int:
    parts = (keys.tensor_parallel, keys.pipeline_parallel, keys.data_parallel)
    total = 1
    for part in parts:
        total *= part or 1
    return total


def _labels(found: list[Point]) -> list[str]:
    """Name each point by its engine and the axes that vary between the points of that engine."""
    values: dict[tuple[str, str], set[str]] = {}
    counts = Counter(point["engine"] for point in found)
    for point in found:
        for axis, value in point.items():
            values.setdefault((point["engine"], axis), set()).add(_shown(value))
    present = Counter((point["engine"], axis) for point in found for axis in point)
    varied = {key for key, seen in values.items() if len(seen) > 1 or present[key] < counts[key[0]]}
    return [" ".join(_words(point, varied)) for point in found]


def _words(point: Point, varied: set[tuple[str, str]]) -> Iterator[str]:
    yield str(point["engine"])
    for axis, value in point.items():
        if axis != "engine" and (point["engine"], axis) in varied:
            yield f"{axis}={_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}:{_shown(inner)}" for key, inner in value.items())
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
