"""From the capacity of one server to how many a peak needs."""

from __future__ import annotations

from fractions import Fraction
from math import ceil


def instances(
    peak_per_s: float, capacity_per_s: float, utilisation_ratio: float, spares: int = 0
) -> int:
    """Return peak / (capacity x utilisation), rounded up, plus spares.

    Computed on the decimal numbers as written, so that no rounding of binary fractions adds one.

    Raises:
        ValueError: capacity or utilisation is not over 0.
    """
    if capacity_per_s <= 0 or utilisation_ratio <= 0:
        raise ValueError("capacity and utilisation must be over 0")
    usable = _exact(capacity_per_s) * _exact(utilisation_ratio)
    return ceil(_exact(peak_per_s) / usable) + spares


def _exact(number: float) -> Fraction:
    return Fraction(str(number))
