"""The tables that a plan may be expected to give, with what is known of their errors."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engines.sim.predict import profile_of
from engines.sim.profile import Profile
from runner import tables
from runner.experiment import Experiment
from runner.experiment.stand_in import stood_in
from runner.plan import expand
from runner.plan.text import spelled_time
from runner.report import report
from runner.run import execute
from runner.stored.frames import Results, results
from runner.tables.grid import wrapped
from runner.world import World

_WITHOUT: Final = "client"
"""The table of the client's accuracy: here nobody measured."""


def predicted_tables(experiment: Experiment, gpu: str | None = None) -> str:
    """Return the tables to expect of an experiment; nothing is started and nothing stays stored.

    Args:
        experiment: what was read.
        gpu: name of a GPU profile, or the path of its file.

    Raises:
        ExperimentError: an engine has no simulation, or there is no such profile.
    """
    simulated = stood_in(experiment, gpu)
    world = World(sweep=lambda kinds: (), nvml=lambda: None)
    names = [name for name in tables.names() if name != _WITHOUT and not tables.get(name).asked]
    with tempfile.TemporaryDirectory(prefix="runner-predict-") as folder:
        summary = execute(expand(simulated), world, Path(folder))
        found = results(summary.folder)
        said = [wrapped(line) for line in (*standing(simulated), _time(found))]
        return "\n\n".join([*said, report(found, names=names)])


def standing(experiment: Experiment) -> Iterator[str]:
    """Yield what simulated figures are worth: by which GPU profile, and how far that is off."""
    gpus = [str((section.simulate or {}).get("gpu")) for section in experiment.engines.values()]
    for gpu in dict.fromkeys(gpus):
        profile = profile_of(gpu)
        yield f"PREDICTED on GPU profile {gpu} ({profile.name}): {_worth(profile)}"


def _worth(profile: Profile) -> str:
    if not profile.errors:
        return (
            f"how far its figures are off is unknown, for it was never held against a measurement"
            f" ({profile.source}). Read mechanisms from it, not figures."
        )
    worst = sorted(profile.errors.items(), key=lambda entry: entry[1], reverse=True)
    listed = ", ".join(f"{name} {error:.0%}" for name, error in worst if error >= 0.005)
    return (
        f"{profile.source}. Held against what was measured there, it is off by at most: {listed}."
        " With other models, lengths or GPUs it may be further off."
    )


def _time(found: Results) -> str:
    startup_s, load_s = (float(found.boots[name].sum()) for name in ("ready_s", "load_s"))
    return (
        f"Measuring it there would take about {spelled_time(startup_s + load_s)}, of which"
        f" {spelled_time(load_s)} are loads; priming boots come on top."
    )
