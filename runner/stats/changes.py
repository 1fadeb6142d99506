"""Since about which night: change points in a series of night means."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .refusal import Boots, Refusal, unusable

LEAST_NIGHTS = 20
LEAST_PART = 2
LARGEST_P = 1e-4
METHOD = "E-divisive, t test at the split"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A night from which the figures differ.

    Attributes:
        n: nights in the series.
        night: place of the first night after the change.
        ratio: geometric mean after / before, each up to its neighbouring change.
        p: of Student's t between the two parts.
    """

    method: str
    n: int
    level: float
    night: int
    ratio: float
    p: float

    def __str__(self) -> str:
        """Return the words of a table."""
        return f"{100 * (self.ratio - 1):+.1f} % since about night {self.night + 1}"


def changes(
    values: Boots, *, margin: float = 0.03, largest_p: float = LARGEST_P
) -> tuple[Change, ...] | Refusal:
    """Return the changes of at least `margin`, in order, from 20 nights.

    E-divisive (Matteson and James 2014, Journal of the American Statistical Association 109):
    the split with the largest scaled energy distance, then each part again. Significance is
    Student's t at the split, as in Fleming et al. (2023, Hunter, ICPE), for permutations cannot
    reach p <= 1e-4 in reasonable time.

    Args:
        values: one figure per night, oldest first, on the metric's scale.
        margin: smallest change worth a word, as a share.
        largest_p: of a split.
    """
    n = len(values)
    if n < LEAST_NIGHTS:
        reason = f"{n} nights; change points need {LEAST_NIGHTS}"
        return Refusal(method=METHOD, n=n, reason=reason)
    refusal = unusable(METHOD, values)
    if refusal:
        return refusal
    logs = np.log(np.asarray(values, dtype=np.float64))
    cuts = [0, *_cuts(logs, 0, largest_p), len(logs)]
    found = []
    for start, cut, end in zip(cuts, cuts[1:], cuts[2:], strict=False):
        step, p = _step(logs[start:cut], logs[cut:end])
        if p <= largest_p and abs(step) >= math.log1p(margin):
            found.append(_change(n, cut, step, p, largest_p))
    return tuple(found)


def alarm(
    values: Boots, *, margin: float = 0.03, largest_p: float = LARGEST_P, drift: int = 2
) -> Change | Refusal | None:
    """Return the latest change when last night saw it too, at most `drift` nights apart."""
    today = changes(values, margin=margin, largest_p=largest_p)
    if isinstance(today, Refusal):
        return today
    if not today:
        return None
    before = changes(values[:-1], margin=margin, largest_p=largest_p)
    if isinstance(before, Refusal):
        return None
    latest = today[-1]
    seen = any(
        abs(other.night - latest.night) <= drift and (other.ratio > 1) == (latest.ratio > 1)
        for other in before
    )
    return latest if seen else None


def best_split(values: NDArray[np.float64]) -> tuple[int, float]:
    """Return (place, q) of the largest q over all tau < kappa: X = [:tau], Y = [tau:kappa].

    q = mn / (m + n) (2 mean|x - y| - mean|x - x'| - mean|y - y'|), means over distinct pairs
    (Matteson and James 2014, equations 4 to 7, exponent 1). Both parts hold at least 2 nights.
    """
    n = len(values)
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = np.abs(values[:, None] - values[None, :]).cumsum(axis=0).cumsum(axis=1)
    tau, kappa = (np.arange(n + 1, dtype=np.float64)[axis] for axis in ((..., None), (None, ...)))
    own = np.diagonal(sums)
    x, y = tau, kappa - tau
    allowed = (x >= LEAST_PART) & (y >= LEAST_PART)
    within_x = own[:, None]
    between = sums - within_x
    within_y = own[None, :] - 2 * sums + within_x
    x, y = np.where(allowed, x, 2.0), np.where(allowed, y, 2.0)
    q = 2 * between / (x * y) - within_x / (x * (x - 1)) - within_y / (y * (y - 1))
    q = np.where(allowed, q * x * y / (x + y), -np.inf)
    place = int(q.max(axis=1).argmax())
    return place, float(q.max())


def _cuts(logs: NDArray[np.float64], offset: int, largest_p: float) -> list[int]:
    if len(logs) < 2 * LEAST_PART:
        return []
    cut, _ = best_split(logs)
    _, p = _step(logs[:cut], logs[cut:])
    if p > largest_p:
        return []
    left = _cuts(logs[:cut], offset, largest_p)
    return [*left, offset + cut, *_cuts(logs[cut:], offset + cut, largest_p)]


def _step(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float]:
    """Return the difference of the means and the p of Student's two-sample t."""
    m, n = len(before), len(after)
    step = float(after.mean() - before.mean())
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    se = math.sqrt(squares / (m + n - 2) * (1 / m + 1 / n))
    if se == 0:
        return step, float(step == 0)
    return step, float(2 * special.stdtr(m + n - 2, -abs(step) / se))


def _change(n: int, night: int, step: float, p: float, largest_p: float) -> Change:
    return Change(method=METHOD, n=n, level=1 - largest_p, night=night, ratio=math.exp(step), p=p)
