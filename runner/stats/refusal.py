"""The answer where the boots cannot answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Boots: TypeAlias = Sequence[float] | NDArray[np.float64]
"""One number per boot, in the order of the blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why there is no figure.

    Attributes:
        method: what was asked for.
        n: boots it was asked of.
        reason: one sentence for a person.
        needed_boots: how many more boots would allow it, as (low, high); None where more boots
            would not help or no number can be given.
        bounds: all that can be said meanwhile, as (low, high); None where that is nothing.
    """

    method: str
    n: int
    reason: str
    needed_boots: tuple[int, int] | None = None
    bounds: tuple[float, float] | None = None


def too_few(method: str, n: int, least: int) -> Refusal | None:
    """Return a refusal when `n` boots are under the `least` that `method` needs."""
    if n >= least:
        return None
    reason = f"{n} boots; {method} needs {least}"
    return Refusal(method=method, n=n, reason=reason, needed_boots=(least - n, least - n))


def unusable(method: str, *sides: Boots, least: int = 2) -> Refusal | None:
    """Return a refusal when a side has under `least` boots or a value without a logarithm."""
    n = min(len(side) for side in sides)
    for side in sides:
        for place, value in enumerate(side):
            if not (np.isfinite(value) and value > 0):
                reason = f"boot {place} has the value {value:g}, which has no logarithm"
                return Refusal(method=method, n=n, reason=reason)
    return too_few(method, n, least)
