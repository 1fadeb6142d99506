"""Does a figure drift from block to block?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .refusal import Boots, Refusal, unusable

LEAST_BOOTS = 6
LARGEST_P = 0.01
METHOD = "slope of the log over blocks, t test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A straight line through the boots of one cell, in the order of their blocks.

    Attributes:
        change: from the first block to the last on that line, as a share: 0.05 is 5 % more.
        p: two-sided, of no slope.
        named: whether it is worth a word.
    """

    method: str
    n: int
    change: float
    p: float
    named: bool

    def __str__(self) -> str:
        """Return the words of a table; silent when not named."""
        said = f"{100 * self.change:+.1f} % from the first block to the last (p = {self.p:.1g})"
        return said if self.named else ""


def over_blocks(blocks: Boots, values: Boots, *, least_change: float = 0.03) -> Drift | Refusal:
    """Return the drift over blocks, from 6 boots.

    Ordinary least squares of the log metric on the block's number, t test of the slope (Draper
    and Smith 1998, Applied Regression Analysis, chapter 1). Named at p <= 0.01 and a change of at
    least `least_change`: one steady cell in a hundred is named, and none that hardly moves.

    Args:
        blocks: number of each boot's block.
        values: the metric of each boot.
        least_change: smallest change worth a word, as a share.
    """
    refusal = unusable(METHOD, values, least=LEAST_BOOTS)
    if refusal:
        return refusal
    x, y = np.asarray(blocks, dtype=np.float64), np.log(np.asarray(values, dtype=np.float64))
    if float(np.ptp(x)) == 0 or float(np.ptp(y)) == 0:
        return Drift(method=METHOD, n=len(y), change=0.0, p=1.0, named=False)
    line = stats.linregress(x, y)
    change, p = math.expm1(float(line.slope) * float(np.ptp(x))), float(line.pvalue)
    named = p <= LARGEST_P and abs(change) >= least_change
    return Drift(method=METHOD, n=len(y), change=change, p=p, named=named)
