"""Measured figures of real engines, read from a TOML file: what a GPU profile is held against."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured quantity.

    Attributes:
        experiment: the load it was measured under, a name of the file's `loads`.
        engine: `vllm` or `sglang`.
        measure: what it is, with its unit.
        model: the model.
        settings: the cell's settings beside the engine's own flags.
        concurrency: the level; None where the load has none.
        values: one value, or one per restart in their order; empty where a range is given.
        range: least and most.
        fit: a profile may be fitted to it.
    """

    experiment: str
    engine: str
    measure: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int | None = None
    values: tuple[float, ...] = ()
    range: tuple[float, float] | None = None
    fit: bool = False

    @property
    def name(self) -> str:
        """Experiment, engine, settings, level and measure in one line."""
        settings = " ".join(f"{key}={value}" for key, value in self.settings.items())
        level = f"@{self.concurrency}" if self.concurrency else ""
        parts = (f"{self.experiment}{level}", self.engine, settings, self.measure)
        return " ".join(part for part in parts if part)

    def error_ratio(self, predicted: tuple[float, ...]) -> float:
        """Return the largest relative error of predictions, signed; within a range it is 0."""
        pairs = zip(predicted, self.targets(predicted), strict=True)
        return max(((value - target) / target for value, target in pairs), key=abs)

    def targets(self, predicted: tuple[float, ...]) -> tuple[float, ...]:
        """Return what each prediction is compared with: its restart's value, or the range."""
        if self.range is None:
            return self.values
        low, high = self.range
        return tuple(min(max(value, low), high) for value in predicted)

    @property
    def said(self) -> str:
        """The measured values as text."""
        if self.range is not None:
            return f"{self.range[0]:g}..{self.range[1]:g}"
        return " ".join(f"{value:g}" for value in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A file of figures.

    Attributes:
        gpu: the profile it starts from.
        setup: per engine its `version`, `fraction` and `flags`.
        loads: per experiment the `kind` of load and its lengths.
        figures: the figures.
        search: names of the profile's times to fit, where the file chooses them.
    """

    gpu: str
    setup: Mapping[str, Mapping[str, Any]]
    loads: Mapping[str, Mapping[str, Any]]
    figures: tuple[Figure, ...]
    search: tuple[str, ...] = ()


def read(text: str) -> Figures:
    """Return the figures of a TOML text; what is said beside them is left alone."""
    given = tomllib.loads(text)
    setup = given["setup"]
    return Figures(
        gpu=setup["gpu"],
        setup={name: value for name, value in setup.items() if isinstance(value, dict)},
        loads=given["loads"],
        search=tuple(setup.get("search", ())),
        figures=tuple(_figure(entry, setup["model"]) for entry in given["figure"]),
    )


def _figure(entry: Mapping[str, Any], model: str) -> Figure:
    known = {key: value for key, value in entry.items() if key in Figure.__dataclass_fields__}
    known["values"] = tuple(entry.get("values", ()))
    known["range"] = tuple(entry["range"]) if "range" in entry else None
    return Figure(**{"model": model, **known})
