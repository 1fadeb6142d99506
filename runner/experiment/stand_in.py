"""`--simulate` and `--predict`: the simulated engine stands in for every engine of a file. Pure."""

from __future__ import annotations

from typing import Any, Final

from engines.images import version_of_image
from engines.sim.predict import profile_of
from runner.errors import ExperimentError
from runner.experiment import EngineKeys, Experiment
from runner.experiment.checks import kind_of

CALIBRATED_GPU: Final = "laptop-8gb"
"""The GPU profile that was fitted to measurements of a GPU."""
_CPU: Final = "cpu"
_SIMULATED: Final = frozenset({"vllm", "sglang"})


def stood_in(experiment: Experiment, gpu: str | None = None) -> Experiment:
    """Return an experiment whose engines are all simulated, without starting one.

    A section that says how it is simulated keeps what it says. Compile caches are as the file asks:
    filled by a priming boot, or empty at every start.

    Args:
        experiment: what was read.
        gpu: GPU profile of all; where it is not given a section's own, or the calibrated one.

    Raises:
        ExperimentError: an engine has no simulation, or there is no such profile.
    """
    if gpu is not None:
        try:
            profile_of(gpu)
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise ExperimentError(f"--gpu {gpu}: {error}") from error
    sections = {
        name: _section(name, section, experiment, gpu)
        for name, section in experiment.engines.items()
    }
    return experiment.model_copy(update={"engines": sections})


def _section(name: str, section: EngineKeys, experiment: Experiment, gpu: str | None) -> EngineKeys:
    kind = kind_of(name, section)
    if kind not in _SIMULATED:
        listed = ", ".join(sorted(_SIMULATED))
        raise ExperimentError(f"{experiment.path}: {kind} has no simulation; there is {listed}")
    properties = {**_as_started(section, experiment), **(section.simulate or {}), "offline": True}
    properties |= {"gpu": gpu} if gpu else {}
    changes: dict[str, Any] = {"launcher": "process", "program": (), "url": None}
    return section.model_copy(update={**changes, "simulate": properties})


def _as_started(section: EngineKeys, experiment: Experiment) -> dict[str, Any]:
    """Return the properties that a start of the real engine would have."""
    if section.simulate is not None:
        return {}
    gpus = experiment.common.gpus if section.gpus is None else section.gpus
    found: dict[str, Any] = {"gpu": _CPU if gpus == 0 else CALIBRATED_GPU, "startup_s": None}
    image = section.image or experiment.common.image or ""
    release = section.version or ".".join(map(str, version_of_image(image) or ()))
    if release:
        found["version"] = release
    if section.launcher in (None, "docker") and "compile" not in experiment.matrix.axes:
        policy = section.compile or experiment.common.compile or experiment.cache.compile
        found["cold"] = policy == "none"
    return found
