"""How much of the spread comes from the restart, or from the night, and the next plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from . import design
from .refusal import Boots, Refusal

Groups: TypeAlias = Sequence[Boots]
"""The members of each group: the load repeats of each boot, or the boots of each night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceShare:
    """The share of the variance that lies between groups, with its exact limits.

    Attributes:
        n: groups (boots, nights).
        share: between / (between + within); 0 when the estimate is negative.
        between_sd, within_sd: on the log scale, of a group and of a member in it.
        negative: the ANOVA estimate of the between variance was negative.
    """

    method: str
    n: int
    level: float
    share: float
    low: float
    high: float
    between_sd: float
    within_sd: float
    negative: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next experiment: repeats of the load per boot, boots per cell, and their cost."""

    method: str
    n: int
    level: float
    repeats: int
    boots: int
    cost_s: float


def boot_share(cells: Sequence[Groups], level: float = 0.95) -> VarianceShare | Refusal:
    """Return how much of the variance between load repeats comes from the boot.

    Args:
        cells: cells of one engine; each a list of boots; each boot its load repeats.
        level: of the limits.

    Refused under 10 boots of a single cell, or 20 pooled degrees of freedom between boots.
    """
    df = sum(len(boots) - 1 for boots in cells)
    enough = df >= 20 or (len(cells) == 1 and len(cells[0]) >= 10)
    short = 10 - len(cells[0]) if len(cells) == 1 else 20 - df
    return _answer("boot share", cells, enough, short, level)


def night_share(nights: Groups, level: float = 0.95) -> VarianceShare | Refusal:
    """Return how much of the variance between boots of one cell comes from the night.

    Refused under 10 nights.
    """
    return _answer("night share", (nights,), len(nights) >= 10, None, level)


def next_plan(
    share: VarianceShare,
    *,
    boot_s: float,
    load_s: float,
    margin: float,
    m: int,
    most_repeats: int = 10,
) -> Plan:
    """Return the cheapest plan that finds a difference of `margin` between two such cells.

    Repeats per boot by Kalibera and Jones (2013), ISMM: the root of (cost of a boot / cost of a
    repeat) x (variance within / variance between), rounded up, at most `most_repeats`. Boots
    for 80 % power at 0.05 / m, paired; cost in seconds of both sides.
    """
    within, between = share.within_sd**2, share.between_sd**2
    ideal = math.sqrt(boot_s / load_s * within / between) if between > 0 else most_repeats
    repeats = max(1, min(most_repeats, math.ceil(ideal)))
    sd = design.ratio_sd(math.sqrt(between + within / repeats))
    boots = max(5, design.boots_to_decide(sd, math.log1p(margin), 0.05 / m, 0.05))
    return Plan(
        method="Kalibera-Jones repeats, noncentral t boots",
        n=share.n,
        level=share.level,
        repeats=repeats,
        boots=boots,
        cost_s=2 * boots * (boot_s + repeats * load_s),
    )


def _answer(
    method: str, strata: Sequence[Groups], enough: bool, short: int | None, level: float
) -> VarianceShare | Refusal:
    n = sum(len(groups) for groups in strata)
    found = anova_share(method, strata, level)
    if isinstance(found, Refusal) or enough:
        return found
    low, high = 100 * found.low, 100 * found.high
    return Refusal(
        method=method,
        n=n,
        reason=f"{method} not estimable ({low:.0f} to {high:.0f} %)",
        needed_boots=None if short is None else (short, short),
        bounds=(found.low, found.high),
    )


def anova_share(
    method: str, strata: Sequence[Groups], level: float = 0.95
) -> VarianceShare | Refusal:
    """Return the intraclass share of groups within strata, at any size.

    Exact F limits of the variance ratio, by Wald (1940), Annals of Mathematical Statistics 11,
    when groups differ in size; with equal sizes they are those of Searle, Casella and McCulloch
    (1992), Variance Components, section 3.6. Each stratum (cell) has its own mean.
    """
    logs = [[np.log(np.asarray(group, dtype=np.float64)) for group in groups] for groups in strata]
    members = sum(len(group) for groups in logs for group in groups)
    n = sum(len(groups) for groups in logs)
    df_between, df_within = n - len(logs), members - n
    if df_between < 1 or df_within < 1:
        reason = f"{method} needs 2 groups, and 2 members in one"
        return Refusal(method=method, n=n, reason=reason)
    within = sum(float(((g - g.mean()) ** 2).sum()) for groups in logs for g in groups) / df_within
    means = [np.array([group.mean() for group in groups]) for groups in logs]
    sizes = [np.array([float(len(group)) for group in groups]) for groups in logs]

    def statistic(theta: float) -> float:
        """Return F(theta) x within: falls in theta, the ratio of the variances."""
        return sum(map(_weighted_squares, means, sizes, [theta] * len(sizes))) / df_between

    tail = (1 - level) / 2
    limits = (float(special.fdtri(df_between, df_within, p)) for p in (1 - tail, tail))
    low, high = (_share_at(statistic, within * limit) for limit in limits)
    unequal = sum(float(size.sum() - (size**2).sum() / size.sum()) for size in sizes) / df_between
    between = (statistic(0.0) - within) / unequal
    return VarianceShare(
        method="ANOVA, exact F limits",
        n=n,
        level=level,
        share=max(0.0, between) / (max(0.0, between) + within) if between + within > 0 else 0.0,
        low=low,
        high=high,
        between_sd=math.sqrt(max(0.0, between)),
        within_sd=math.sqrt(within),
        negative=between < 0,
    )


def _weighted_squares(
    means: NDArray[np.float64], sizes: NDArray[np.float64], theta: float
) -> float:
    weights = sizes / (1 + sizes * theta)
    centre = (weights @ means) / weights.sum()
    return float(weights @ (means - centre) ** 2)


def _share_at(statistic: Callable[[float], float], target: float) -> float:
    """Return theta / (1 + theta) where the statistic falls to `target`; 0 when it starts lower."""
    if statistic(0.0) <= target:
        return 0.0
    if target <= 0:
        return 1.0
    share = optimize.brentq(lambda s: statistic(s / (1 - s)) - target, 0.0, 1 - 1e-12)
    return float(share)
