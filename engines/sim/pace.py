"""How fast one boot of one night is: factors on the time of every step, drawn from seeds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from engines.sim.options import Simulate


def rng_of(simulate: Simulate, what: str) -> random.Random:
    """Return the randomness of one boot for one purpose; the same boot draws the same."""
    if simulate.boot is None:
        return random.Random()  # noqa: S311 - a boot nobody numbered repeats nothing
    name = f"{simulate.name}/" if simulate.name else ""
    drawn_from = f"{simulate.seed}/{simulate.night}/{name}{simulate.boot}/{what}"
    return random.Random(drawn_from)  # noqa: S311 - no secret


def factor_of(simulate: Simulate) -> float:
    """Return this boot's factor: slowdown, its own draw, its night's, and the slow kind's."""
    night = random.Random(f"{simulate.seed}/{simulate.night}/night")  # noqa: S311
    boot = rng_of(simulate, "pace")
    drawn = boot.gauss(0.0, simulate.boot_sd_ratio) + night.gauss(0.0, simulate.night_sd_ratio)
    slow = boot.random() < 0.5
    return simulate.slowdown_ratio * math.exp(drawn) * (simulate.two_valued_ratio if slow else 1.0)


def pace_of(simulate: Simulate) -> Callable[[float], float]:
    """Return the factor at each simulated second of this boot."""
    factor, drift = factor_of(simulate), simulate.drift_ratio_per_hour
    if not drift:
        return lambda now_s: factor
    return lambda now_s: factor * (1.0 + drift * now_s / 3600)
