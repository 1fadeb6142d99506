"""When requests arrive in open loop: a law of spacing, and how the rate moves. Pure and seeded.

A law gives arrivals at one per unit; a pace turns units into seconds (for a Poisson process this
is the exact time change of an inhomogeneous one: Lewis and Shedler 1979). Times are drawn once,
are never rescaled to fit a rate, and end only when the caller stops taking them.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class Law(Protocol):
    """Spacing of arrivals at one per unit on average."""

    def units(self, rng: random.Random) -> Iterator[float]:
        """Yield arrivals without end, never decreasing."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Equal spacing, the first arrival at once."""

    def units(self, rng: random.Random) -> Iterator[float]:
        """Yield 0, 1, 2, ..."""
        return map(float, itertools.count())


@dataclass(frozen=True, slots=True)
class Gamma:
    """Gaps from a gamma distribution.

    Attributes:
        burstiness: its shape. 1 is a Poisson process; below 1 arrivals bunch, above they even out.
            The gaps' coefficient of variation is 1 / sqrt(burstiness).
    """

    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if not self.burstiness > 0:
            raise ValueError(f"burstiness must be over 0, not {self.burstiness}")

    def units(self, rng: random.Random) -> Iterator[float]:
        """Yield arrivals, the first after one gap."""
        shape = self.burstiness
        return itertools.accumulate(rng.gammavariate(shape, 1 / shape) for _ in itertools.count())


POISSON = Gamma(1.0)


class Pace(Protocol):
    """How the rate moves: units of arrival to seconds."""

    def second(self, unit: float) -> float:
        """Return when `unit` arrivals are due on average; infinity for never."""


@dataclass(frozen=True, slots=True)
class Flat:
    """One rate for ever; `inf` lets everything arrive at once."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _check(self.rate_per_s)

    def second(self, unit: float) -> float:
        """Return unit / rate."""
        return unit / self.rate_per_s


@dataclass(frozen=True, slots=True)
class Linear:
    """A rate that moves in a straight line for `over_s` seconds and then stays."""

    from_per_s: float
    to_per_s: float
    over_s: float

    def __post_init__(self) -> None:
        _check(self.from_per_s + self.to_per_s, self.over_s)
        if min(self.from_per_s, self.to_per_s) < 0:
            raise ValueError("a rate cannot be negative")

    def second(self, unit: float) -> float:
        """Solve from * t + (to - from) * t^2 / (2 * over) = unit."""
        ramp = (self.from_per_s + self.to_per_s) / 2 * self.over_s
        if unit >= ramp:
            return self.over_s + _after(unit - ramp, self.to_per_s)
        slope = (self.to_per_s - self.from_per_s) / self.over_s
        root = math.sqrt(max(self.from_per_s**2 + 2 * slope * unit, 0.0))
        return 2 * unit / (self.from_per_s + root) if unit else 0.0


@dataclass(frozen=True, slots=True)
class Exponential:
    """A rate that is multiplied by the same factor every second for `over_s`, and then stays."""

    from_per_s: float
    to_per_s: float
    over_s: float

    def __post_init__(self) -> None:
        _check(self.from_per_s, self.to_per_s, self.over_s)

    def second(self, unit: float) -> float:
        """Solve from * (e^(g * t) - 1) / g = unit, with g = ln(to / from) / over."""
        growth = math.log(self.to_per_s / self.from_per_s) / self.over_s
        if not growth:
            return unit / self.from_per_s
        ramp = (self.to_per_s - self.from_per_s) / growth
        if unit >= ramp:
            return self.over_s + (unit - ramp) / self.to_per_s
        return math.log1p(unit * growth / self.from_per_s) / growth


@dataclass(frozen=True, slots=True)
class Steps:
    """One rate after another, each (rate per second, for seconds); the last one stays."""

    steps: Sequence[tuple[float, float]]

    def __post_init__(self) -> None:
        if not self.steps:
            raise ValueError("steps need at least one rate")
        for rate_per_s, for_s in self.steps:
            _check(for_s)
            if not 0 <= rate_per_s < math.inf:
                raise ValueError(f"a step's rate must be finite and not negative: {rate_per_s}")

    def second(self, unit: float) -> float:
        """Walk through the steps; one of rate 0 is a pause."""
        passed_s = 0.0
        for rate_per_s, for_s in self.steps[:-1]:
            if unit < rate_per_s * for_s:
                return passed_s + unit / rate_per_s
            unit -= rate_per_s * for_s
            passed_s += for_s
        return passed_s + _after(unit, self.steps[-1][0])


def due_times(law: Law, pace: Pace, rng: random.Random) -> Iterator[float]:
    """Yield arrival times in seconds after the window opens, never decreasing.

    Ends only where the pace does: when its last rate is 0.
    """
    for unit in law.units(rng):
        due_s = pace.second(unit)
        if due_s == math.inf:
            return
        yield due_s


def replayed(times_s: Iterable[float]) -> Iterator[float]:
    """Yield a trace's own times, counted from the first.

    Raises:
        ValueError: they decrease.
    """
    first_s = last_s = None
    for number, time_s in enumerate(times_s):
        if last_s is not None and time_s < last_s:
            raise ValueError(f"time {number} of the trace, {time_s}, is before {last_s}")
        first_s = time_s if first_s is None else first_s
        last_s = time_s
        yield time_s - first_s


def _after(unit: float, rate_per_s: float) -> float:
    return unit / rate_per_s if rate_per_s else math.inf


def _check(*values: float) -> None:
    for value in values:
        if not value > 0:
            raise ValueError(f"rates and durations must be over 0, not {value}")
