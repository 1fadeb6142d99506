"""Does the KV cache explain the gap? The gap as configured, and the gap at equal KV.

No percentage share of "explained": it is unusable even at 10 boots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .interval import Interval, LogMean, interval, paired, satterthwaite
from .refusal import Boots, Refusal, unusable

_METHOD = "ratio at equal KV, OLS with cells as fixed effects"
_NEXT = "cannot be separated here; pin KV and run 5 boots"
_SAME = math.log(1.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The boots of one cell, in block order.

    Attributes:
        values: the metric, one per boot.
        fit: requests that run at once, one per boot: `covariate` of its KV tokens.
        first: whether the boot was the first of its shape.
    """

    values: Boots
    fit: Boots
    first: Sequence[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """How the log metric follows the log covariate, within cells of one engine.

    Attributes:
        n: boots in the fit.
        se: standard error of `slope`.
        df: residual degrees of freedom.
        low, high: observed range of the covariate.
    """

    method: str
    n: int
    slope: float
    se: float
    df: int
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """The ratio ours / theirs, as configured and at equal KV."""

    method: str
    n: int
    level: float
    as_configured: Interval | Refusal
    at_equal_kv: Interval | Refusal


def requests_at_once(kv_tokens: int, input_tokens: int, output_tokens: int) -> int:
    """Return how many whole requests the KV cache holds at once.

    Raises:
        ValueError: a request without tokens.
    """
    if input_tokens + output_tokens < 1:
        raise ValueError("a request has at least one token")
    return kv_tokens // (input_tokens + output_tokens)


def covariate(
    *, max_running: int, concurrency: int, kv_tokens: int, input_tokens: int, output_tokens: int
) -> float:
    """Return the requests that can run at once; KV has no effect while everything fits."""
    return min(max_running, concurrency, kv_tokens / (input_tokens + output_tokens))


def near(ours: Boots, theirs: Boots, tolerance: float = 0.02) -> tuple[int, ...]:
    """Return the places of our boots whose KV tokens lie within `tolerance` of one of theirs."""
    limit = 1 + tolerance
    return tuple(
        place
        for place, kv in enumerate(ours)
        if any(1 / limit <= kv / other <= limit for other in theirs)
    )


def slope(cells: Sequence[Side]) -> Slope | Refusal:
    """Return the common slope of log metric on log covariate, each cell with its own level.

    Least squares within cells (Draper and Smith 1998, chapter 14). Needs 5 boots in a single
    cell, or 8 residual degrees of freedom over the cells of an engine.
    """
    n = sum(len(cell.values) for cell in cells)
    df = n - len(cells) - 1
    if not (len(cells) == 1 and n >= 5) and df < 8:
        short = 5 - n if len(cells) == 1 else 8 - df
        reason = f"{n} boots in {len(cells)} cells are too few for a slope; {_NEXT}"
        return Refusal(method=_METHOD, n=n, reason=reason, needed_boots=(short, short))
    x = np.concatenate([_centred(cell.fit) for cell in cells])
    y = np.concatenate([_centred(cell.values) for cell in cells])
    squares = float(x @ x)
    if squares < _SAME**2:
        return Refusal(method=_METHOD, n=n, reason=f"KV hardly varies within cells; {_NEXT}")
    steep = float(x @ y) / squares
    residual = float(((y - steep * x) ** 2).sum()) / df
    return Slope(
        method=_METHOD,
        n=n,
        slope=steep,
        se=math.sqrt(residual / squares),
        df=df,
        low=min(min(cell.fit) for cell in cells),
        high=max(max(cell.fit) for cell in cells),
    )


def gap(ours: Side, theirs: Side, *, others: Sequence[Side] = (), level: float = 0.95) -> Gap:
    """Return both ratios ours / theirs, paired by block.

    Args:
        ours: the side that is moved to the other's KV.
        theirs: the side that stays.
        others: further cells of our engine; they help to fit the slope.
        level: of both intervals.
    """
    configured = paired(ours.values, theirs.values)
    return Gap(
        method=_METHOD,
        n=len(ours.values),
        level=level,
        as_configured=interval(configured, level),
        at_equal_kv=interval(at_equal_kv(ours, theirs, others=others), level),
    )


def at_equal_kv(ours: Side, theirs: Side, *, others: Sequence[Side] = ()) -> LogMean | Refusal:
    """Return the mean log ratio with our boots moved along the slope to the other side's KV.

    mean(d) - slope (mean(x) - x') over log ratios d, x the log covariate and x' its mean on the
    other side. Alone, our cell's slope is that of d on x, and this is the regression's own
    prediction at x', n - 2 df. With other cells the slope is theirs and ours, its variance is
    added, and the df are Satterthwaite's. Equal covariates need no slope: the ratio as
    configured is the ratio at equal KV.
    """
    refusal = unusable(_METHOD, ours.values, ours.fit, theirs.values, theirs.fit)
    if refusal:
        return refusal
    x, target = np.log(ours.fit), float(np.log(theirs.fit).mean())
    if float(np.abs(x - target).max()) <= _SAME:
        return paired(ours.values, theirs.values)
    ratios = np.log(ours.values) - np.log(theirs.values)
    cells = (ours, *others) if others else (replace(ours, values=np.exp(ratios)),)
    line = hindrance(ours.fit, ours.first, theirs.fit) or slope(cells)
    if isinstance(line, Refusal):
        return line
    moved, n = ratios - line.slope * (x - target), len(x)
    squares = [float(_centred(cell.fit) @ _centred(cell.fit)) for cell in cells]
    df = n - 1 - squares[0] / sum(squares)  # our share in the slope has been paid for
    scatter = float(((moved - moved.mean()) ** 2).sum()) / df / n
    shift = (float(x.mean()) - target) ** 2 * line.se**2
    return LogMean(
        method=_METHOD,
        n=n,
        mean=float(moved.mean()),
        se=math.sqrt(scatter + shift),
        df=satterthwaite((scatter, df), (shift, line.df)) if others else line.df,
    )


def hindrance(ours: Boots, first: Sequence[bool], theirs: Boots) -> Refusal | None:
    """Return why no slope can answer: first boots stand apart, or the other KV was never seen.

    Args:
        ours: the covariate (or the KV tokens) of each of our boots.
        first: whether each was the first boot of its shape.
        theirs: the same quantity of the other side's boots.
    """
    later = [fit for fit, start in zip(ours, first, strict=True) if not start]
    starts = [fit for fit, start in zip(ours, first, strict=True) if start]
    if not later or any(not min(later) / 1.01 <= fit <= max(later) * 1.01 for fit in starts):
        reason = f"KV and being the first boot {_NEXT}"
        return Refusal(method=_METHOD, n=len(ours), reason=reason)
    target = math.exp(float(np.log(theirs).mean()))
    if not min(ours) <= target <= max(ours):
        reason = f"the other side's KV was never observed on this side; {_NEXT}"
        return Refusal(method=_METHOD, n=len(ours), reason=reason)
    return None


def _centred(values: Boots) -> NDArray[np.float64]:
    logs = np.log(np.asarray(values, dtype=np.float64))
    return np.asarray(logs - logs.mean())
