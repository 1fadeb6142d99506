"""What a few boots have shown, and what they could have missed."""

from __future__ import annotations

from dataclasses import dataclass

from .refusal import Boots, Refusal, too_few


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMax:
    """Smallest and largest boot.

    Attributes:
        level: the chance that the next boot falls inside.
    """

    method: str
    n: int
    level: float
    low: float
    high: float


def min_max(values: Boots) -> MinMax | Refusal:
    """Return the range of the boots with the chance (n - 1) / (n + 1) of holding the next.

    Exact for any continuous distribution: the next boot is equally likely to take each of the
    n + 1 ranks (Wilks 1941, Annals of Mathematical Statistics 12). 50 % at 3 boots, 67 % at 5.
    """
    method = "min-max"
    refusal = too_few(method, len(values), 2)
    if refusal:
        return refusal
    n = len(values)
    low, high = float(min(values)), float(max(values))
    return MinMax(method=method, n=n, level=(n - 1) / (n + 1), low=low, high=high)


def unseen_mode(n: int, level: float = 0.95) -> float:
    """Return how large a share of starts another mode may have, though `n` boots agree.

    The exact upper limit of a share never seen in n, 1 - (1 - level)^(1/n) (Clopper and Pearson
    1934, Biometrika 26): 63 % of starts after 3 boots, 45 % after 5, 14 % after 20.

    Raises:
        ValueError: n is under 1.
    """
    if n < 1:
        raise ValueError("no boot has shown anything yet; n must be at least 1")
    return float(1 - (1 - level) ** (1 / n))
