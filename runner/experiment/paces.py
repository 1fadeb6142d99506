"""How the rate of an open loop moves: from a load's keys to the client's words. Pure."""

from __future__ import annotations

import math

from runner.experiment import Ramp
from runner.experiment.levels import Load
from runner.load.arrivals import Exponential, Flat, Linear, Pace, Steps


def pace_of(load: Load) -> Pace:
    """Return how the arrivals of a load at a rate are paced."""
    ramp, level = load.keys.ramp, load.level
    if ramp is None or load.level_kind != "rate_per_s":
        return Flat(level)
    if ramp.shape == "steps":
        return _plateaus(ramp, level)
    shape = Linear if ramp.shape == "linear" else Exponential
    return shape(ramp.from_per_s, level, ramp.over_s)


def _plateaus(ramp: Ramp, level: float) -> Steps:
    """Return plateaus of equal length, evenly apart, the first at `from_per_s`."""
    rise, each_s = (level - ramp.from_per_s) / ramp.steps, ramp.over_s / ramp.steps
    rates = [ramp.from_per_s + rise * number for number in range(ramp.steps)]
    return Steps((*((rate, each_s) for rate in rates), (level, math.inf)))
