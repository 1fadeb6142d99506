"""Whether requests in flight grow without end: an open loop over capacity, noticed early. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final

GROWTH_RATIO: Final = 0.05
"""Growth under this share of the arrivals is no overload that a window could show."""

NOISE_SD: Final = 3.0
"""Growth must exceed so many standard deviations of the number of arrivals."""

_PARTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """How many requests were in flight at a moment of the window."""

    at_s: float
    requests: int


def overloaded(samples: Sequence[InFlight], rate_per_s: float, settle_s: float) -> bool:
    """Tell whether arrivals outrun departures.

    After `settle_s` the rest of the window is cut into four parts of equal length. It is overload
    when the mean in flight grows from each part to the next and, from the first to the last, by
    more than `GROWTH_RATIO` of the arrivals between their middles and by more than `NOISE_SD`
    standard deviations of their number (Poisson: the square root). A server under its capacity
    fills up to Little's number and stays there, which the settling time leaves out.

    Args:
        samples: in the order of time.
        rate_per_s: arrivals asked.
        settle_s: time from the window's opening that is not looked at: at least as long as a
            request takes end to end while the server is not busy.
    """
    late = [sample for sample in samples if sample.at_s >= settle_s]
    if len(late) < 2 * _PARTS:
        return False
    first_s, last_s = late[0].at_s, late[-1].at_s
    means = _means(late, first_s, last_s)
    if means is None or any(a >= b for a, b in pairwise(means)):
        return False
    arrivals = rate_per_s * (last_s - first_s) * (_PARTS - 1) / _PARTS
    growth = means[-1] - means[0]
    return growth > GROWTH_RATIO * arrivals and growth > NOISE_SD * math.sqrt(arrivals)


def _means(samples: Sequence[InFlight], first_s: float, last_s: float) -> list[float] | None:
    """Return the mean in flight of each part; None where a part has no sample."""
    length_s = (last_s - first_s) / _PARTS
    if length_s <= 0:
        return None
    parts: list[list[int]] = [[] for _ in range(_PARTS)]
    for sample in samples:
        part = min(int((sample.at_s - first_s) / length_s), _PARTS - 1)
        parts[part].append(sample.requests)
    return [fmean(part) for part in parts] if all(parts) else None
