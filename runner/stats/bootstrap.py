"""Bootstrap of whole blocks, for what has no t interval: quantiles and arithmetic means."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .interval import Interval
from .refusal import Boots, Refusal, too_few

LEAST_BOOTS = 20
Statistic: TypeAlias = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""(draws, boots) -> one figure per draw; `quantile(0.5)` and `mean` are two."""


def mean(draws: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the arithmetic mean of every draw."""
    return np.asarray(draws.mean(axis=1))


def quantile(share: float) -> Statistic:
    """Return the statistic "this quantile over boots"."""
    return lambda draws: np.asarray(np.quantile(draws, share, axis=1))


def expanded_tail(tail: float, n: int) -> float:
    """Return the percentile to read so that n boots keep the wanted `tail` (one side).

    A percentile interval is too narrow by sqrt((n - 1) / n) and by z against t:
    tail' = Phi(sqrt(n / (n - 1)) * t(tail, n - 1)), Hesterberg (2015), The American
    Statistician 69, section 3.
    """
    return float(special.ndtr(math.sqrt(n / (n - 1)) * special.stdtrit(n - 1, tail)))


def bootstrap(
    values: Boots, statistic: Statistic, *, seed: int, level: float = 0.95, draws: int = 10_000
) -> Interval | Refusal:
    """Return the expanded-percentile interval of a statistic over boots, from 20 boots.

    Under 20 boots `unseen.min_max` is what can be said.
    """
    return _bootstrap((values,), statistic, seed=seed, level=level, draws=draws)


def bootstrap_ratio(
    a: Boots,
    b: Boots,
    statistic: Statistic,
    *,
    seed: int,
    level: float = 0.95,
    draws: int = 10_000,
) -> Interval | Refusal:
    """Return the interval of statistic(a) / statistic(b), whole blocks drawn together.

    Raises:
        ValueError: the sides differ in length.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} against {len(b)} boots: pass complete blocks only")
    return _bootstrap((a, b), statistic, seed=seed, level=level, draws=draws)


def _bootstrap(
    sides: tuple[Boots, ...], statistic: Statistic, *, seed: int, level: float, draws: int
) -> Interval | Refusal:
    method, n = "expanded-percentile bootstrap of blocks", len(sides[0])
    refusal = too_few(method, n, LEAST_BOOTS)
    if refusal:
        return refusal
    blocks = np.random.default_rng(seed).integers(n, size=(draws, n))
    figures = _figure(statistic, tuple(np.asarray(side)[blocks] for side in sides))
    tail = expanded_tail((1 - level) / 2, n)
    low, high = np.quantile(figures, (tail, 1 - tail))
    centre = _figure(statistic, tuple(np.asarray(side)[None, :] for side in sides))[0]
    return Interval(
        method=method, n=n, level=level, centre=float(centre), low=float(low), high=float(high)
    )


def _figure(statistic: Statistic, sides: tuple[NDArray[np.float64], ...]) -> NDArray[np.float64]:
    first = statistic(sides[0])
    return first if len(sides) == 1 else first / statistic(sides[1])
