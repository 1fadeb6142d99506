"""t intervals on the log scale: of one geometric mean, and of the ratio of two.

A `LogMean` is what every test and interval is made from; `verdict` takes it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .refusal import Boots, Refusal, unusable


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMean:
    """A mean logarithm (of values, or of ratios) with its standard error.

    Attributes:
        method: how it was made.
        n: replicates: boots (of the smaller side), or nights.
        mean: natural logarithm of the geometric mean or of the ratio.
        se: standard error of `mean`.
        df: degrees of freedom of `se`.
        unit: what is counted by `n`.
    """

    method: str
    n: int
    mean: float
    se: float
    df: float
    unit: Literal["boots", "nights"] = "boots"

    @property
    def sd(self) -> float:
        """Standard deviation of one replicate on the log scale."""
        return self.se * math.sqrt(self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A figure with its limits, on the scale of the metric (or as a ratio)."""

    method: str
    n: int
    level: float
    centre: float
    low: float
    high: float

    @property
    def half_width_ratio(self) -> float:
        """How far a limit lies from the middle, as a share: 0.03 is 3 %."""
        return math.sqrt(self.high / self.low) - 1


def per_boot(repeats: Sequence[Boots]) -> tuple[float, ...]:
    """Return one number per boot, the geometric mean of its load repeats.

    Raises:
        ValueError: a boot has no repeat, or one that is not above 0.
    """
    if any(len(loads) == 0 or min(loads) <= 0 for loads in repeats):
        raise ValueError("every boot needs load repeats above 0; leave out void loads and boots")
    return tuple(math.exp(np.mean(np.log(loads))) for loads in repeats)


def pairs(
    a: Mapping[int, float], b: Mapping[int, float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return both sides of the blocks that have both, in block order: {block: value} each."""
    both = sorted(a.keys() & b.keys())
    return tuple(a[block] for block in both), tuple(b[block] for block in both)


def unequal_tails(ours: Sequence[int], theirs: Sequence[int]) -> Refusal | None:
    """Return a refusal when a p99 would be compared at unequal request counts.

    A load's own p99 is one number per boot, and it grows with the requests it is taken from.

    Args:
        ours: requests of each boot's load.
        theirs: the same of the other side.
    """
    counts = {*ours, *theirs}
    if len(counts) <= 1:
        return None
    reason = f"{min(counts)} to {max(counts)} requests a load; a p99 compares at equal counts only"
    return Refusal(method="p99 of a load", n=min(len(ours), len(theirs)), reason=reason)


def single(values: Boots) -> LogMean | Refusal:
    """Return the mean log of one cell's boots: its exponential is the geometric mean."""
    method = "geometric mean, t"
    return unusable(method, values) or _of(method, np.log(values))


def paired(a: Boots, b: Boots) -> LogMean | Refusal:
    """Return the mean log ratio a/b over blocks; boot i of both sides belongs to one block.

    The planned pairing removes what a block shares (Box, Hunter and Hunter 2005, chapter 3).

    Raises:
        ValueError: the sides differ in length. `pairs` drops incomplete blocks.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} against {len(b)} boots: pass complete blocks only, see pairs()")
    method = "ratio of geometric means, paired t"
    return unusable(method, a, b) or _of(method, np.log(a) - np.log(b))


def unpaired(a: Boots, b: Boots) -> LogMean | Refusal:
    """Return the mean log ratio a/b of boots that share no blocks (two runs, two nights).

    Unequal variances, degrees of freedom of Welch (1947), Biometrika 34.
    """
    method = "ratio of geometric means, Welch t"
    refusal = unusable(method, a, b)
    if refusal:
        return refusal
    one, other = _of(method, np.log(a)), _of(method, np.log(b))
    return LogMean(
        method=method,
        n=min(one.n, other.n),
        mean=one.mean - other.mean,
        se=math.hypot(one.se, other.se),
        df=satterthwaite((one.se**2, one.df), (other.se**2, other.df)),
    )


def satterthwaite(*terms: tuple[float, float]) -> float:
    """Return the df of a sum of independent variance terms, each (variance, df).

    Satterthwaite (1946), Biometrics Bulletin 2. Terms of variance 0 take no part; when all are
    0 the smallest df stands.
    """
    total = sum(variance for variance, _ in terms)
    if total == 0:
        return min(df for _, df in terms)
    return 1 / sum((variance / total) ** 2 / df for variance, df in terms)


def interval(mean: LogMean | Refusal, level: float = 0.95) -> Interval | Refusal:
    """Return the two-sided t interval of a mean log, back on the metric's scale."""
    if isinstance(mean, Refusal):
        return mean
    half = float(special.stdtrit(mean.df, (1 + level) / 2)) * mean.se
    return Interval(
        method=mean.method,
        n=mean.n,
        level=level,
        centre=math.exp(mean.mean),
        low=math.exp(mean.mean - half),
        high=math.exp(mean.mean + half),
    )


def geometric(values: Boots, level: float = 0.95) -> Interval | Refusal:
    """Return the interval of one cell's geometric mean over boots, from 2 boots."""
    return interval(single(values), level)


def ratio(a: Boots, b: Boots, level: float = 0.95) -> Interval | Refusal:
    """Return the interval of the ratio of geometric means a/b, paired by block, from 2 blocks."""
    return interval(paired(a, b), level)


def p_above(mean: LogMean, limit: float = 0.0) -> float:
    """Return the one-sided p of "not above `limit`" (a log): small when the mean is above."""
    if mean.se == 0:
        return 0.0 if mean.mean > limit else 1.0
    return float(special.stdtr(mean.df, (limit - mean.mean) / mean.se))


def p_below(mean: LogMean, limit: float = 0.0) -> float:
    """Return the one-sided p of "not below `limit`" (a log): small when the mean is below."""
    if mean.se == 0:
        return 0.0 if mean.mean < limit else 1.0
    return float(special.stdtr(mean.df, (mean.mean - limit) / mean.se))


def p_differs(mean: LogMean) -> float:
    """Return the two-sided p of "no difference": a ratio of 1."""
    return min(1.0, 2 * min(p_above(mean), p_below(mean)))


def _of(method: str, logs: NDArray[np.float64]) -> LogMean:
    n = len(logs)
    return LogMean(
        method=method,
        n=n,
        mean=float(logs.mean()),
        se=float(logs.std(ddof=1)) / math.sqrt(n),
        df=n - 1,
    )
