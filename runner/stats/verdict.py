"""Better, worse, equal within x %, or not enough data and how many boots more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from . import design
from .interval import Interval, LogMean, interval, p_above, p_below, p_differs
from .refusal import Refusal

Word: TypeAlias = Literal["better", "worse", "equal", "not enough data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the experiment declared before anyone looked.

    Attributes:
        m: comparisons of the primary metric, measured or not.
        margin: x of "equal within x", as a share; None when none was declared.
        looks: planned looks at the results, 1 to 3; each is made at alpha / looks.
        higher_is_better: throughput, or latency.
        alpha: chance of any false better or worse in the family; of each false equal.
    """

    m: int = 1
    margin: float | None = 0.03
    looks: int = 1
    higher_is_better: bool = True
    alpha: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what no plan may say."""
        if self.m < 1 or not 1 <= self.looks <= 3 or not 0 < self.alpha < 0.5:
            raise ValueError("m is at least 1, looks 1 to 3, alpha under 0.5")
        if self.margin is not None and self.margin <= 0:
            raise ValueError("a margin is a share above 0, as 0.03")

    @property
    def look_alpha(self) -> float:
        """Chance that one look may spend (Bonferroni over the looks)."""
        return self.alpha / self.looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One declared comparison: ours over theirs.

    Attributes:
        mean: mean log ratio, or why there is none.
        doubt: an unexplained two-valued doubt of either side, in words; it forbids a verdict.
        past: spread of the log ratio in past results of that engine; used where it rests on more.
        higher_is_better: as the rules say where it is None.
    """

    name: str
    mean: LogMean | Refusal
    doubt: str = ""
    past: design.Spread | None = None
    higher_is_better: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What may be said of one comparison.

    Attributes:
        interval: the ratio at `level`, or why there is none.
        p, p_holm: two-sided, alone and adjusted over m; None without an interval.
        equal_within: the smallest x that the interval supports, as a share.
        reason: why there is not enough data; empty otherwise.
        needed_boots: more boots of each side, (low, high); None where boots would not help.
        spread: what `needed_boots` was computed from.
    """

    name: str
    word: Word
    method: str
    n: int
    level: float
    m: int
    margin: float | None
    interval: Interval | Refusal
    p: float | None = None
    p_holm: float | None = None
    equal_within: float | None = None
    reason: str = ""
    needed_boots: tuple[int, int] | None = None
    spread: design.Spread | None = None


def least_boots(m: int) -> int:
    """Return the boots a side that any verdict needs: 5, and 6 from 30 comparisons."""
    return 5 if m < 30 else 6


def verdicts(comparisons: Sequence[Comparison], rules: Rules) -> tuple[Verdict, ...]:
    """Return a verdict for each comparison of the family, in the given order.

    Equality comes first: a difference that is sure and lies within the declared margin is equal
    within it, its interval beside. Better and worse are Holm's over m; what has no p, too few
    boots or a doubt counts as p = 1. Equality is tested at alpha for each comparison, not over m.

    Raises:
        ValueError: more comparisons than the m declared.
    """
    if len(comparisons) > rules.m:
        raise ValueError(f"{len(comparisons)} comparisons, but m = {rules.m} were declared")
    fit = [_obstacle(one, rules) == "" for one in comparisons]
    ps = [_p(one.mean) for one in comparisons]
    adjusted = holm([p if ok else 1.0 for p, ok in zip(ps, fit, strict=True)], rules.m)
    return tuple(
        _verdict(one, rules, p_holm) for one, p_holm in zip(comparisons, adjusted, strict=True)
    )


def holm(ps: Sequence[float], m: int) -> tuple[float, ...]:
    """Return Holm's (1979, Scandinavian Journal of Statistics 6) adjusted p over m tests."""
    adjusted = [1.0] * len(ps)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (m - rank) * ps[place]))
        adjusted[place] = highest
    return tuple(adjusted)


def p_equal(mean: LogMean, margin: float) -> float:
    """Return the p of "not equal within margin": the larger of two one-sided tests.

    Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15. The margin is
    symmetric as a ratio: 1 / (1 + x) to 1 + x.
    """
    limit = math.log1p(margin)
    return max(p_above(mean, -limit), p_below(mean, limit))


def equal_within(mean: LogMean, alpha: float = 0.05) -> float:
    """Return the smallest margin at which `p_equal` is at most alpha, as a share."""
    inner = interval(mean, 1 - 2 * alpha)
    if isinstance(inner, Refusal):
        return math.inf
    return max(inner.high, 1 / inner.low) - 1


def _verdict(one: Comparison, rules: Rules, p_holm: float) -> Verdict:
    level = 1 - rules.look_alpha
    if isinstance(one.mean, Refusal):
        word: Word = "not enough data"
        within, method = None, one.mean.method
    else:
        word = _word(one, one.mean, rules, p_holm)
        within, method = equal_within(one.mean, rules.look_alpha), one.mean.method
    unsure = word == "not enough data"
    known = _spread(one) if unsure and not one.doubt else None
    return Verdict(
        name=one.name,
        word=word,
        method=f"{method}; Holm over m = {rules.m}",
        n=one.mean.n,
        level=level,
        m=rules.m,
        margin=rules.margin,
        interval=interval(one.mean, level),
        p=_p(one.mean) if isinstance(one.mean, LogMean) else None,
        p_holm=p_holm if isinstance(one.mean, LogMean) else None,
        equal_within=within,
        reason=(_obstacle(one, rules) or _unsettled(rules)) if unsure else "",
        needed_boots=_needed(one, rules, known) if unsure else None,
        spread=known,
    )


def _word(one: Comparison, mean: LogMean, rules: Rules, p_holm: float) -> Word:
    if _obstacle(one, rules):
        return "not enough data"
    if rules.margin is not None and p_equal(mean, rules.margin) <= rules.look_alpha:
        return "equal"
    if p_holm > rules.look_alpha:
        return "not enough data"
    own = one.higher_is_better
    higher = rules.higher_is_better if own is None else own
    return "better" if (mean.mean > 0) == higher else "worse"


def _obstacle(one: Comparison, rules: Rules) -> str:
    """Return what forbids any verdict, whatever the figures say."""
    if isinstance(one.mean, Refusal):
        return one.mean.reason
    if one.doubt:
        return f"{one.doubt}: compare group by group"
    least = least_boots(rules.m)
    short = one.mean.n < least
    return f"{one.mean.n} {one.mean.unit} a side; a verdict needs {least}" if short else ""


def _unsettled(rules: Rules) -> str:
    if rules.margin is None:
        return "the interval holds 1, and no margin was declared"
    return f"the interval neither leaves 1 behind nor lies within {100 * rules.margin:g} %"


def _p(mean: LogMean | Refusal) -> float:
    return 1.0 if isinstance(mean, Refusal) else p_differs(mean)


def _spread(one: Comparison) -> design.Spread | None:
    """Return the better known spread: of these boots, or of past results."""
    mean = one.mean
    if isinstance(mean, Refusal) or mean.unit == "nights" or mean.se == 0:
        return one.past
    if one.past and one.past.df > mean.df:
        return one.past
    return design.spread("these boots", mean.sd, mean.n, mean.df)


def _needed(one: Comparison, rules: Rules, known: design.Spread | None) -> tuple[int, int] | None:
    """Return how many more boots decide, for the low and the high end of the spread."""
    if one.doubt or (isinstance(one.mean, LogMean) and one.mean.unit == "nights"):
        return None
    if isinstance(one.mean, Refusal) and one.mean.needed_boots is None:
        return None
    short = max(1, least_boots(rules.m) - one.mean.n)
    if known is None:
        return short, short
    margin = math.log1p(rules.margin or 0.03)
    alpha = rules.look_alpha / rules.m
    low, high = (
        design.boots_to_decide(sd, margin, alpha, rules.look_alpha)
        for sd in (known.low, known.high)
    )
    return max(short, low - one.mean.n), max(short, high - one.mean.n)
