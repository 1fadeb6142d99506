"""Before the boots: how many, which smallest difference, and at what cost.

Differences are of paired log ratios; `ratio_sd` turns the spread of single boots into theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from .refusal import Boots, Refusal, too_few

POWER = 0.8
MOST_BOOTS = 10_000
"""No plan goes further; a need beyond it is printed as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A standard deviation on the log scale, and where it comes from.

    Attributes:
        source: "these boots", or the past results it was taken from.
        sd: of one replicate, natural log.
        df: degrees of freedom behind it.
        low, high: its interval at `level`.
    """

    method: str
    source: str
    n: int
    level: float
    sd: float
    df: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallestDifference:
    """What a design can find: a ratio of 1 + `ratio`, in `power` of experiments.

    Attributes:
        level: 1 - alpha of the whole family of m comparisons.
    """

    method: str
    n: int
    level: float
    m: int
    power: float
    ratio: float


def spread(source: str, sd: float, n: int, df: float, level: float = 0.8) -> Spread:
    """Return a sd with its chi-square interval, df sd^2 / chi2 (Box, Hunter and Hunter 2005)."""
    tail = (1 - level) / 2
    low, high = (sd * math.sqrt(df / _chi2(df, p)) for p in (1 - tail, tail))
    return Spread(
        method="chi-square", source=source, n=n, level=level, sd=sd, df=df, low=low, high=high
    )


def past_spread(source: str, cells: Sequence[Boots], level: float = 0.8) -> Spread | Refusal:
    """Return the spread of boots within cells of past results, for plans only, never a verdict."""
    logs = [np.log(cell) for cell in cells if len(cell) > 1]
    df = sum(len(cell) - 1 for cell in logs)
    if df == 0:
        reason = f"{source}: no cell has 2 boots"
        return Refusal(method="chi-square", n=len(cells), reason=reason)
    squares = sum(float(((cell - cell.mean()) ** 2).sum()) for cell in logs)
    return spread(source, math.sqrt(squares / df), df + len(logs), df, level)


def ratio_sd(sd: float, other_sd: float | None = None) -> float:
    """Return the sd of the log ratio of two boots: the root of the summed squares."""
    return math.hypot(sd, sd if other_sd is None else other_sd)


def power(boots: int, sd: float, log_ratio: float, alpha: float) -> float:
    """Return the chance that a two-sided paired t test at `alpha` finds a true `log_ratio`.

    The noncentral t of Cohen (1988), Statistical Power Analysis, chapter 2, as a mean over the
    sd that n boots may show: scipy's noncentral t is NaN at some of the values met here.
    """
    shift, limit = abs(log_ratio) / sd * math.sqrt(boots), special.stdtrit(boots - 1, 1 - alpha / 2)
    sds, weights = _seen_sds(boots - 1)
    found = special.ndtr(shift - limit * sds) + special.ndtr(-shift - limit * sds)
    return float(weights @ found)


def power_to_equal(boots: int, sd: float, log_margin: float, alpha: float) -> float:
    """Return the chance that two one-sided tests at `alpha` find equality when it is true.

    The same mean over the seen sd, exact: Phillips (1990), Journal of Pharmacokinetics and
    Biopharmaceutics 18.
    """
    shift, limit = log_margin / sd * math.sqrt(boots), special.stdtrit(boots - 1, 1 - alpha)
    sds, weights = _seen_sds(boots - 1)
    return float(weights @ np.maximum(0.0, 2 * special.ndtr(shift - limit * sds) - 1))


def boots_to_decide(sd: float, log_margin: float, alpha: float, equal_alpha: float) -> int:
    """Return the boots that find a difference of the margin, or else equality, in 80 % of cases.

    Args:
        sd: of the paired log ratio.
        log_margin: log(1 + margin).
        alpha: two-sided, after the division by m and looks.
        equal_alpha: of each one-sided equality test.
    """
    if sd == 0:
        return 2
    unit = (sd / log_margin) ** 2
    found, equal = special.ndtri(POWER), special.ndtri((1 + POWER) / 2)
    return max(
        _fewest(
            lambda boots: power(boots, sd, log_margin, alpha),
            unit * (special.ndtri(1 - alpha / 2) + found) ** 2,
        ),
        _fewest(
            lambda boots: power_to_equal(boots, sd, log_margin, equal_alpha),
            unit * (special.ndtri(1 - equal_alpha) + equal) ** 2,
        ),
    )


def smallest_difference(
    boots: int, sd: float, *, m: int, least: int, looks: int = 1, alpha: float = 0.05
) -> SmallestDifference | Refusal:
    """Return the smallest ratio that `boots` paired boots find in 80 % of experiments.

    At alpha / (m looks), the strictest step of Holm: what the design can promise.

    Args:
        boots: of each side.
        sd: of the paired log ratio.
        m: comparisons that the experiment declares.
        least: boots under which there is no verdict (`verdict.least_boots`).
        looks: planned looks at the results.
        alpha: of the family.
    """
    method = "noncentral t at alpha / (m looks)"
    refusal = too_few(method, boots, least)
    if refusal:
        return refusal
    strict = alpha / (m * looks)
    top = 1.0
    while power(boots, 1.0, top, strict) < POWER:
        top *= 2
    effect = optimize.brentq(lambda size: power(boots, 1.0, size, strict) - POWER, 1e-9, top)
    found = math.expm1(float(effect) * sd)
    return SmallestDifference(
        method=method, n=boots, level=1 - alpha, m=m, power=POWER, ratio=found
    )


def gpu_minutes(boots: tuple[int, int], block_s: float, gpus: int = 1) -> tuple[float, float]:
    """Return the cost of (low, high) more blocks of `block_s` seconds on `gpus` GPUs."""
    return boots[0] * block_s * gpus / 60, boots[1] * block_s * gpus / 60


def _fewest(chance: Callable[[int], float], normal: float) -> int:
    """Return the fewest boots with a chance of 80 %; t needs a few more than the `normal` law."""
    boots = max(2, math.ceil(min(normal, MOST_BOOTS)))
    while boots < MOST_BOOTS and chance(boots) < POWER:
        boots += 1
    return boots


@lru_cache(maxsize=1024)
def _seen_sds(df: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return sds that a sample may show when the true one is 1, and their weights (chi law)."""
    nodes, weights = _nodes()
    low, high = max(0.0, 1 - 8 / math.sqrt(2 * df)), 1 + 8 / math.sqrt(2 * df)
    sds = low + (high - low) * (1 + nodes) / 2
    scale = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    density = np.exp(scale + (df - 1) * np.log(sds) - df * sds**2 / 2)
    return sds, weights * density * (high - low) / 2


@lru_cache(maxsize=1)
def _nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights


def _chi2(df: float, p: float) -> float:
    return float(special.chdtri(df, 1 - p))
