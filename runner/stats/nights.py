"""Between nights: the A/A audit, and tonight's boots against earlier ones.

Boots of two nights are never pooled: what a night shares would pass for a difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .interval import Interval, LogMean, paired, satterthwaite, single
from .refusal import Boots, Refusal, too_few
from .share import at_most

LEAST_BOOTS = 5
LEAST_NIGHTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmRate:
    """What the A/A cells of n nights say of the false alarms of this bench."""

    method: str
    n: int
    level: float
    alarms: int
    at_most: float

    def __str__(self) -> str:
        """Return the sentence of a table."""
        return f"{self.n} nights, {self.alarms} alarms, rate at most {100 * self.at_most:.0f} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One cell's boots of one night, and the reference cell's in the same blocks."""

    cell: Boots
    reference: Boots


def alarm_rate(nights: int, alarms: int, level: float = 0.95) -> AlarmRate:
    """Return the alarm rate with its one-sided Clopper-Pearson limit.

    Raises:
        ValueError: no night, or more alarms than nights.
    """
    limit = at_most(alarms, nights, level)
    return AlarmRate(
        method="Clopper-Pearson, one-sided", n=nights, level=level, alarms=alarms, at_most=limit
    )


def unresolved(margin: float, same: Interval) -> Refusal | None:
    """Return a refusal when the A/A interval `same` is wider than a declared margin.

    The A/A half-width is a floor of the margin, never the margin.
    """
    if margin >= same.half_width_ratio:
        return None
    reason = (
        f"this bench cannot resolve {100 * margin:g} %: the same cell against itself "
        f"is known to {100 * same.half_width_ratio:.2g} %"
    )
    return Refusal(method="A/A floor", n=same.n, reason=reason)


def against_reference(now: Night, then: Night) -> LogMean | Refusal:
    """Return the mean log ratio now / then, each night taken against its pinned reference cell.

    What the night does to both cells cancels: per block log(cell / reference), then Welch's t
    over the two nights. Needs 5 complete blocks in each.

    Raises:
        ValueError: cell and reference differ in length within a night.
    """
    method = "ratio to the reference cell, Welch t over two nights"
    refusal = too_few(method, min(len(now.cell), len(then.cell)), LEAST_BOOTS)
    if refusal:
        return refusal
    new, old = paired(now.cell, now.reference), paired(then.cell, then.reference)
    if isinstance(new, Refusal) or isinstance(old, Refusal):
        return new if isinstance(new, Refusal) else old
    return LogMean(
        method=method,
        n=min(new.n, old.n),
        mean=new.mean - old.mean,
        se=math.hypot(new.se, old.se),
        df=satterthwaite((new.se**2, new.df), (old.se**2, old.df)),
    )


def against_history(tonight: Boots, earlier: Boots) -> LogMean | Refusal:
    """Return the mean log ratio of tonight's mean to earlier nights' means, as a prediction.

    se = s sqrt(1 + 1/n) over n night means, n - 1 df: its t interval holds 0 exactly when
    tonight lies in the t prediction interval (Hahn and Meeker 1991, Statistical Intervals,
    section 4.7). Needs 10 earlier nights; each night counts once, however many boots it had.

    Args:
        tonight: tonight's boots.
        earlier: one geometric mean per earlier night, of about as many boots as tonight.
    """
    method = "t prediction interval on night means"
    n = len(earlier)
    if n < LEAST_NIGHTS:
        reason = f"{n} earlier nights; {method} needs {LEAST_NIGHTS}, or a reference cell"
        return Refusal(method=method, n=n, reason=reason)
    past = single(earlier)
    if isinstance(past, Refusal):
        return past
    if len(tonight) == 0 or min(tonight) <= 0:
        return Refusal(method=method, n=n, reason="tonight has no boot with a value above 0")
    return LogMean(
        method=method,
        n=n,
        mean=float(np.log(tonight).mean()) - past.mean,
        se=past.sd * math.sqrt(1 + 1 / n),
        df=past.df,
        unit="nights",
    )


def between_nights(
    now: Night | None, then: Night | None, tonight: Boots, earlier: Boots
) -> LogMean | Refusal:
    """Return the ratio by the reference cell where both nights have it, else by the history.

    With neither, a refusal: the difference is shown, and no regression is called.
    """
    reference: LogMean | Refusal | None = None
    if now is not None and then is not None:
        reference = against_reference(now, then)
        if isinstance(reference, LogMean):
            return reference
    history = against_history(tonight, earlier)
    return history if isinstance(history, LogMean) or reference is None else reference
