"""Variances that borrow from the other cells of one engine, by as much as these agree.

Never plain pooling: a cell's own boots keep at least half of the weight, and a cell that is
noisier than the others explain stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from .interval import LogMean
from .refusal import Refusal

LEAST_BOOTS = 5
LEAST_CELLS = 3
_MOST_BORROWED = 1.0  # prior df per own df: half of the weight
_NOISY = 0.9  # quantile of F beyond which a cell is noisier than the others explain


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What the cells of one engine say of a variance before its own boots speak.

    Attributes:
        n: cells it was fitted to.
        df: degrees of freedom that it is worth; may be infinite.
        variance: its centre, natural log squared.
    """

    method: str
    n: int
    df: float
    variance: float


def fit(variances: Sequence[float], dfs: Sequence[float]) -> Prior | Refusal:
    """Return the prior of variances s_g^2 with d_g df, from cells of at least 5 boots.

    Moments of log s^2 (Smyth 2004, Statistical Applications in Genetics and Molecular Biology
    3(1), section 6.2): e = log s^2 - psi(d/2) + log(d/2), psi'(d0/2) = var(e) - mean psi'(d/2),
    log s0^2 = mean(e) + psi(d0/2) - log(d0/2). When the cells differ by no more than chance, d0
    is infinite and s0^2 their mean variance.
    """
    method = "moderated variance"
    cells = [(s2, d) for s2, d in zip(variances, dfs, strict=True) if d >= LEAST_BOOTS - 1]
    if len(cells) < LEAST_CELLS or max(s2 for s2, _ in cells) == 0:
        reason = f"{len(cells)} cells with {LEAST_BOOTS} boots and a spread; {LEAST_CELLS} needed"
        return Refusal(method=method, n=len(cells), reason=reason)
    s2, d = (np.array(column, dtype=np.float64) for column in zip(*cells, strict=True))
    s2 = np.maximum(s2, 1e-5 * np.median(s2))  # an exact agreement has no logarithm
    e = np.log(s2) - special.digamma(d / 2) + np.log(d / 2)
    excess = float(e.var(ddof=1) - special.polygamma(1, d / 2).mean())
    if excess <= 0:
        return Prior(method=method, n=len(cells), df=math.inf, variance=float(s2.mean()))
    d0 = 2 * trigamma_inverse(excess)
    centre = float(e.mean() + special.digamma(d0 / 2) - math.log(d0 / 2))
    return Prior(method=method, n=len(cells), df=d0, variance=math.exp(centre))


def moderate(mean: LogMean, prior: Prior) -> LogMean:
    """Return `mean` with the variance (d0 s0^2 + d s^2) / (d0 + d) on d0 + d df (Smyth 2004).

    d0 is cut at the own df, and a cell whose s^2 / s0^2 lies beyond the 90 % point of F(d, d0)
    is returned as it is: without both, one cell in ten that is 3 times noisier than the rest
    would be covered in 80 % of cases instead of 95 %.
    """
    limit = special.fdtri(mean.df, min(prior.df, 1e6), _NOISY)
    if mean.sd**2 > limit * prior.variance:
        return mean
    d0 = min(prior.df, _MOST_BORROWED * mean.df)
    variance = (d0 * prior.variance + mean.df * mean.sd**2) / (d0 + mean.df)
    method = f"{mean.method}, {prior.method}"
    return replace(mean, method=method, se=math.sqrt(variance / mean.n), df=d0 + mean.df)


def trigamma_inverse(value: float) -> float:
    """Return y with psi'(y) = value > 0, by Newton on 1 / psi' (Smyth 2004, appendix)."""
    y = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(special.polygamma(1, y))
        step = trigamma * (1 - trigamma / value) / float(special.polygamma(2, y))
        y += step
        if -step / y < 1e-10:
            break
    return y
