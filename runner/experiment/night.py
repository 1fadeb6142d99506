"""What a night runs: a list of experiments, and the pinned cell that stands in every block."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import Field, PositiveFloat

from runner.errors import ExperimentError
from runner.experiment import EngineKeys, Experiment, Matrix, Metric
from runner.experiment.checks import complaints_of
from runner.experiment.complaints import Complaint, findings_of
from runner.experiment.keys import Keys
from runner.experiment.read import error_of, overlaid, parsed, read, text_of
from runner.experiment.stand_in import stood_in
from runner.experiment.unusable import unusable

REFERENCE: Final = "reference"
"""Section of the pinned cell, whose image stays the same from night to night."""


class NightKeys(Keys):
    """The file of a night.

    Attributes:
        experiments: files, relative to this one; the first is the most important.
        metric: column of `loads` that is judged between nights.
        margin_ratio: differences between nights under this share count as none.
        reference: a pinned cell, laid into every experiment: what moves it moved the machine.
        rehearse: laid over the rest by --rehearse, as in every experiment.
    """

    experiments: tuple[str, ...] = Field(min_length=1)
    metric: Metric = "output_tokens_per_s"
    margin_ratio: PositiveFloat = 0.03
    reference: EngineKeys | None = None
    rehearse: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What a night runs and how nights are judged."""

    keys: NightKeys
    experiments: tuple[Experiment, ...]


def read_night(
    path: Path, *, rehearse: bool = False, simulate: bool = False, gpu: str | None = None
) -> Night:
    """Read the file of a night and every experiment that it lists.

    Args:
        path: the TOML file.
        rehearse: lay the `[rehearse]` table of each file over the rest of it.
        simulate: let simulated engines stand in for all, without starting one.
        gpu: GPU profile of those.

    Raises:
        ExperimentError: one of the files cannot be read, or something in it is wrong.
    """
    text = text_of(path)
    raw = parsed(text, path)
    found = unusable(raw) or findings_of(NightKeys, raw) or _twice(raw)
    if not found and rehearse and raw.get("rehearse"):
        raw = overlaid(raw, raw["rehearse"])
        found = findings_of(NightKeys, raw)
    if found:
        raise error_of(found, text, path)
    keys = NightKeys.model_validate_json(json.dumps(raw), strict=True)
    files = [path.parent / file for file in keys.experiments]
    experiments = [read(file, rehearse=rehearse) for file in files]
    pinned = tuple(with_reference(one, keys.reference) for one in experiments)
    if simulate:
        pinned = tuple(stood_in(one, gpu) for one in pinned)
    return Night(keys=keys, experiments=pinned)


def with_reference(experiment: Experiment, reference: EngineKeys | None) -> Experiment:
    """Return an experiment with the pinned cell as one cell more, in every block.

    Raises:
        ExperimentError: the pinned cell does not go with the rest of the experiment.
    """
    if reference is None or REFERENCE in experiment.engines:
        return experiment
    matrix = experiment.matrix
    axes = matrix.axes
    if "engine" not in axes and not any("engine" in group for group in matrix.zip):
        axes = {"engine": tuple(experiment.engines), **axes}
    pinned = experiment.model_copy(
        update={
            "engines": {**experiment.engines, REFERENCE: reference},
            "matrix": Matrix.model_validate({**axes, "zip": matrix.zip}),
            "include": (*_whole(experiment), {"engine": REFERENCE}),
        }
    )
    found = complaints_of(pinned)
    if found:
        said = "; ".join(complaint.text("", {}) for complaint in found)
        raise ExperimentError(f"{experiment.path}: the night's [reference] does not fit: {said}")
    return pinned


def _whole(experiment: Experiment) -> tuple[Mapping[str, Any], ...]:
    """Return the included points with the engine that each means by default."""
    only = next(iter(experiment.engines))
    return tuple({"engine": only, **point} for point in experiment.include)


def _twice(raw: Mapping[str, Any]) -> list[Complaint]:
    """Complain of two experiments that would share a folder of results."""
    stems = [Path(file).stem for file in raw["experiments"]]
    return [
        Complaint(place=("experiments", number), sentence=f'"{stem}" is there twice')
        for number, stem in enumerate(stems)
        if stem in stems[:number]
    ]
