"""Quantiles of any number of durations: exact up to some millions, then in fine buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_EXACT: Final = 4_000_000
_SHIFT: Final = 52 - 11
"""Buckets keep 11 bits of a float's mantissa: they are 0.05 % wide."""
_NEEDED: Final = 100
"""A 99 % quantile of fewer values is their maximum in disguise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Where a load's durations lie, in seconds; None where there are none.

    Attributes:
        count: how many there are.
        mean_s: arithmetic mean.
        p50_s: median.
        p90_s: 90 % quantile.
        p95_s: 95 % quantile.
        p99_s: 99 % quantile; None for fewer than 100 values: then read `max_s`.
        max_s: largest.
    """

    count: int = 0
    mean_s: float | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None


class Spread:
    """Takes durations in seconds and gives their `Quantiles` in bounded memory."""

    __slots__ = ("_buckets", "_max_s", "_sum_s", "_values", "count")

    def __init__(self) -> None:
        self.count = 0
        self._sum_s = 0.0
        self._max_s = 0.0
        self._values: list[Floats] = []
        self._buckets: dict[int, int] | None = None

    def add(self, values_s: Floats) -> None:
        """Take durations; negative ones count as 0."""
        if not len(values_s):
            return
        values_s = np.maximum(values_s, 0.0)
        self.count += len(values_s)
        self._sum_s += float(values_s.sum())
        self._max_s = max(self._max_s, float(values_s.max()))
        self._values.append(values_s)
        if self._buckets is not None or self.count > _EXACT:
            self._fold()

    def _fold(self) -> None:
        buckets = {} if self._buckets is None else self._buckets
        keys, counts = np.unique(
            np.concatenate(self._values).view(np.int64) >> _SHIFT, return_counts=True
        )
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            buckets[key] = buckets.get(key, 0) + count
        self._buckets, self._values = buckets, []

    def quantiles(self) -> Quantiles:
        """Return the quantiles of all durations so far."""
        if not self.count:
            return Quantiles()
        shares = (0.5, 0.9, 0.95, 0.99)
        p50, p90, p95, p99 = self._exact(shares) if self._buckets is None else self._from(shares)
        return Quantiles(
            count=self.count,
            mean_s=self._sum_s / self.count,
            p50_s=p50,
            p90_s=p90,
            p95_s=p95,
            p99_s=p99 if self.count >= _NEEDED else None,
            max_s=self._max_s,
        )

    def _exact(self, shares: tuple[float, ...]) -> list[float]:
        self._values = [np.concatenate(self._values)]
        return [float(value) for value in np.quantile(self._values[0], shares)]

    def _from(self, shares: tuple[float, ...]) -> list[float]:
        keys = np.array(sorted(self._buckets or {}), np.int64)
        passed = np.cumsum([(self._buckets or {})[key] for key in keys.tolist()])
        middles = ((keys << _SHIFT) + (1 << (_SHIFT - 1))).view(np.float64)
        at = np.searchsorted(passed, np.array(shares) * passed[-1])
        return [min(float(value), self._max_s) for value in middles[at]]
