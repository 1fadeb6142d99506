"""How often something happens: a count with its exact interval."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A count of n, and the shares it is compatible with."""

    method: str
    n: int
    level: float
    count: int
    low: float
    high: float

    def __str__(self) -> str:
        """Return the sentence of a table: "1 of 3 is compatible with 1 to 91 %"."""
        low, high = f"{100 * self.low:.0f}", f"{100 * self.high:.0f}"
        return f"{self.count} of {self.n} is compatible with {low} to {high} %"


def share(count: int, n: int, level: float = 0.95) -> Share:
    """Return the two-sided interval of Clopper and Pearson (1934), Biometrika 26.

    Raises:
        ValueError: count is not within 0 to n, or n is 0.
    """
    tail = (1 - level) / 2
    high = at_most(count, n, 1 - tail)
    low = 1 - at_most(n - count, n, 1 - tail)
    return Share(method="Clopper-Pearson", n=n, level=level, count=count, low=low, high=high)


def at_most(count: int, n: int, level: float = 0.95) -> float:
    """Return the one-sided upper limit of a share: "rate at most y".

    Raises:
        ValueError: count is not within 0 to n, or n is 0.
    """
    if not 0 <= count <= n or n == 0:
        raise ValueError(f"{count} of {n} is no count")
    return 1.0 if count == n else float(special.betaincinv(count + 1, n - count, level))
