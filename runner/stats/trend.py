"""Do the latencies of one load move from its beginning to its end?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from .refusal import Refusal

BLOCKS = 10
LEAST_REQUESTS = 20 * BLOCKS
LARGEST_P = 0.001
LEAST_CHANGE = 0.1
METHOD = "Mann-Kendall over medians of ten blocks, Theil-Sen slope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How latencies move over a load.

    Attributes:
        n: requests.
        change: from the first block to the last along the slope, as a share of the median.
        p: two-sided, of no trend.
        named: whether it is worth a word.
    """

    method: str
    n: int
    change: float
    p: float
    named: bool

    def __str__(self) -> str:
        """Return the words of a doubt."""
        return f"{100 * self.change:+.0f} % from its beginning to its end (p = {self.p:.1g})"


def over_time(latencies: Sequence[float]) -> Trend | Refusal:
    """Return the trend of latencies in the order in which requests were sent, from 200 of them.

    Requests that follow each other share a server's state, so they are no independent draws: the
    medians of ten blocks of equal count nearly are, while what lasts is shorter than a block. Their
    order is tested by Mann (1945, Econometrica 13) and Kendall (1975, Rank Correlation Methods),
    their slope is Sen's (1968, JASA 63). Named at p <= 0.001 and a change of at least 10 %: under
    1 % of stationary loads whose neighbours correlate by 0.9, by simulation.
    """
    n = len(latencies)
    if n < LEAST_REQUESTS:
        reason = f"{n} requests; a trend needs {LEAST_REQUESTS}"
        return Refusal(method=METHOD, n=n, reason=reason)
    parts = np.array_split(np.asarray(latencies, dtype=np.float64), BLOCKS)
    medians = np.array([float(np.median(part)) for part in parts])
    middle = float(np.median(medians))
    if middle <= 0 or float(np.ptp(medians)) == 0:
        return Trend(method=METHOD, n=n, change=0.0, p=1.0, named=False)
    places = np.arange(BLOCKS, dtype=np.float64)
    p = float(stats.kendalltau(places, medians).pvalue)
    slope = float(stats.theilslopes(medians, places).slope)
    change = slope * (BLOCKS - 1) / middle
    named = p <= LARGEST_P and abs(change) >= LEAST_CHANGE
    return Trend(method=METHOD, n=n, change=change, p=p, named=named)
