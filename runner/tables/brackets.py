"""What stands in the brackets beside a figure over boots, and the sentence that explains them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator

from runner.stats.bootstrap import LEAST_BOOTS, bootstrap, quantile
from runner.stats.refusal import Refusal
from runner.stats.unseen import unseen_mode
from runner.tables import Centre

Values = tuple[float | None, ...]
"""A figure of each boot, None where it gave none."""


def centre(over: Values) -> Centre | None:
    """Return the median of the values that are known with its brackets, None without any.

    Under 20 boots the brackets are the smallest and the largest boot; from 20 the 95 % interval of
    the median, by an expanded-percentile bootstrap of boots.
    """
    known = [value for value in over if value is not None]
    if not known:
        return None
    low, high, middle = min(known), max(known), statistics.median(known)
    if len(known) >= LEAST_BOOTS and low < high:
        draws = max(1000, min(10_000, 1_000_000 // len(known)))
        found = bootstrap(known, quantile(0.5), seed=len(known), draws=draws)
        if not isinstance(found, Refusal):
            return Centre(
                middle=middle, low=found.low, high=found.high, boots=len(known), interval=True
            )
    return Centre(middle=middle, low=low, high=high, boots=len(known))


def extremes(over: Values) -> Centre | None:
    """Return the smallest and the largest boot and no middle, None under two boots."""
    known = [value for value in over if value is not None]
    if len(known) < 2:
        return None
    return Centre(middle=None, low=min(known), high=max(known), boots=len(known))


def explained(alike: Iterable[int], unlike: Iterable[int] = ()) -> str:
    """Return what the brackets mean, and what so few boots may have missed.

    Args:
        alike: numbers of boots of the rows that have a median.
        unlike: numbers of boots of the rows whose brackets stand alone.
    """
    parts = list(_parts(set(alike), set(unlike)))
    return ". ".join(parts) + "." if parts else "One boot of each cell: no figure has a spread."


def _parts(alike: set[int], unlike: set[int]) -> Iterator[str]:
    several = sorted(n for n in alike if n > 1)
    under = [n for n in several if n < LEAST_BOOTS]
    if under:
        yield (
            f"[range] is the smallest and largest boot; it holds the next one in {_chances(under)}"
        )
    if len(under) < len(several):
        yield "[range] from 20 boots: 95 % interval of the median, bootstrap of boots"
    if unlike:
        yield (
            "A [range] without a median spans boots of many kinds, from the smallest to the largest"
            f" boot; it holds the next one in {_chances(sorted(unlike))}"
        )
    if several:
        unseen = ", ".join(f"{100 * unseen_mode(n):.0f} % of starts ({n} boots)" for n in several)
        yield f"Where boots agree, another kind may be unseen: up to {unseen}"


def _chances(sizes: Iterable[int]) -> str:
    """Return the chance that the next boot falls inside, exact for any distribution: `min_max`."""
    return ", ".join(f"{100 * (n - 1) / (n + 1):.0f} % at {n}" for n in sizes)
