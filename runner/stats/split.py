"""Two groups by the metric alone: the best split against what normal boots would show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .refusal import Boots, Refusal, unusable

LEAST_BOOTS = 8
LEAST_GROUP = 2
_DRAWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The best split of the boots in two.

    Attributes:
        level: share of normal boots that stay under the limit.
        separation: between over within sum of squares of the log metric.
        limit: what normal boots of this n exceed in 1 - level of cases.
        named: whether the split is worth a word.
        low, high: places of the boots in the lower and the upper group.
    """

    method: str
    n: int
    level: float
    separation: float
    limit: float
    named: bool
    low: tuple[int, ...]
    high: tuple[int, ...]

    def __str__(self) -> str:
        """Return the words of a table; silent when not named."""
        sizes = f"{len(self.low)} + {len(self.high)} boots"
        return f"two groups or a long tail ({sizes})" if self.named else ""


def by_metric(values: Boots, level: float = 0.95) -> Split | Refusal:
    """Return the best two-group split of the log metric, with at least 2 boots on each side.

    The likelihood ratio of two normal groups against one (Engelman and Hartigan 1969, Journal
    of the American Statistical Association 64): the largest between / within sum of squares
    over all splits of the ordered values. Its limits depend on n and are simulated from normal
    boots. A long tail can exceed them too, hence the wording. Silent under 8 boots, where half
    of pure noise looks like two groups.
    """
    method = "best split (Engelman-Hartigan)"
    refusal = unusable(method, values, least=LEAST_BOOTS)
    if refusal:
        return refusal
    logs = np.log(np.asarray(values, dtype=np.float64))
    order = np.argsort(logs, kind="stable")
    separations = _separations(logs[order][None, :])[0]
    cut = int(separations.argmax()) + LEAST_GROUP
    separation, limit = float(separations.max()), normal_limit(len(logs), level)
    return Split(
        method=method,
        n=len(logs),
        level=level,
        separation=separation,
        limit=limit,
        named=separation > limit,
        low=tuple(sorted(int(i) for i in order[:cut])),
        high=tuple(sorted(int(i) for i in order[cut:])),
    )


@lru_cache(maxsize=256)
def normal_limit(n: int, level: float = 0.95) -> float:
    """Return the separation that `level` of normal samples of size n stay under.

    Simulated with a fixed seed, so that the same boots always get the same word; the error of
    the level is under 0.2 % (100,000 samples).
    """
    rng = np.random.default_rng(n)
    parts = []
    for _ in range(10):
        sample = np.sort(rng.standard_normal((_DRAWS // 10, n)), axis=1)
        parts.append(_separations(sample).max(axis=1))
    return float(np.quantile(np.concatenate(parts), level))


def _separations(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return between / within for every allowed cut of every sorted row: (rows, cuts)."""
    n = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    left = np.cumsum(centred, axis=1)[:, LEAST_GROUP - 1 : n - LEAST_GROUP]
    sizes = np.arange(LEAST_GROUP, n - LEAST_GROUP + 1)
    # both group means follow from the left sum, for the centred values sum to 0
    between = left**2 * n / (sizes * (n - sizes))
    total = (centred**2).sum(axis=1, keepdims=True)
    within = np.maximum(total - between, 0.0)
    separations = np.full_like(between, np.inf)
    np.divide(between, within, out=separations, where=within > 1e-12 * total)
    # boots that agree to a billionth hold rounding, not groups
    return np.where(total > 1e-18, separations, 0.0)
