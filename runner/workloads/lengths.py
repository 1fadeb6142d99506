"""Lengths in tokens: one number, or a distribution that every request draws from."""

from __future__ import annotations

import itertools
import random
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

_LAWS = ("uniform", "normal", "lognormal", "histogram")


class Table(BaseModel):
    """A table of TOML: unknown keys are complaints, values are final."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Normal(Table):
    """The normal law, in tokens."""

    mean: PositiveFloat
    sd: NonNegativeFloat


class Lognormal(Table):
    """The law whose logarithm is normal: median in tokens, `sigma` of the logarithm."""

    median: PositiveFloat
    sigma: NonNegativeFloat


class Histogram(Table):
    """Counted lengths: bin i holds lengths from `bounds[i]` to `bounds[i + 1]`, evenly."""

    bounds: tuple[PositiveInt, ...] = Field(min_length=2)
    weights: tuple[NonNegativeFloat, ...]

    @model_validator(mode="after")
    def _bins(self) -> Self:
        if len(self.weights) != len(self.bounds) - 1:
            bins = len(self.bounds) - 1
            raise ValueError(f"{bins} bins need {bins} weights (found {len(self.weights)})")
        if any(low >= high for low, high in itertools.pairwise(self.bounds)):
            raise ValueError("bounds must grow")
        if not any(self.weights):
            raise ValueError("at least one weight must be over 0")
        return self


class Distribution(Table):
    """Exactly one law. What it draws outside of the limits is moved to the nearer one.

    Attributes:
        uniform: whole numbers from the first to the second, both included.
        normal: rounded; needs `at_most`.
        lognormal: rounded; needs `at_most`.
        histogram: as counted.
        at_least: shortest length.
        at_most: longest length.
    """

    uniform: tuple[PositiveInt, PositiveInt] | None = None
    normal: Normal | None = None
    lognormal: Lognormal | None = None
    histogram: Histogram | None = None
    at_least: PositiveInt = 1
    at_most: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_law_in_order(self) -> Self:
        given = [law for law in _LAWS if getattr(self, law) is not None]
        if len(given) != 1:
            listed = " and ".join(given) or "none"
            raise ValueError(f"give exactly one of {', '.join(_LAWS)} (found {listed})")
        if self.uniform and self.uniform[0] > self.uniform[1]:
            raise ValueError("uniform is [shortest, longest]")
        if (self.normal or self.lognormal) and self.at_most is None:
            raise ValueError(f"{given[0]} has no longest length; add at_most = ...")
        if self.at_most is not None and self.at_most < self.at_least:
            raise ValueError("at_most is under at_least")
        return self


def _branch(value: Any) -> str:
    return "Distribution" if isinstance(value, (dict, Distribution)) else "int"


Length = Annotated[
    Annotated[PositiveInt, Tag("int")] | Annotated[Distribution, Tag("Distribution")],
    Discriminator(_branch),
]
"""A length as TOML says it: `512`, or `{ uniform = [256, 768] }`."""


def drawn(length: int | Distribution, rng: random.Random) -> int:
    """Return the length of one request, in tokens; a plain number draws nothing."""
    if isinstance(length, int):
        return length
    longest = length.at_most if length.at_most is not None else 1 << 40
    return max(length.at_least, min(longest, round(_drawn(length, rng))))


def longest(length: int | Distribution) -> int:
    """Return the longest that `drawn` may return, in tokens."""
    if isinstance(length, int):
        return length
    ends = [length.at_most] if length.at_most is not None else []
    ends += [length.uniform[1]] if length.uniform else []
    ends += [length.histogram.bounds[-1]] if length.histogram else []
    return max(length.at_least, min(ends))


def _drawn(length: Distribution, rng: random.Random) -> float:
    if length.uniform:
        return rng.randint(*length.uniform)
    if length.normal:
        return rng.gauss(length.normal.mean, length.normal.sd)
    if length.lognormal:
        return length.lognormal.median * rng.lognormvariate(0, length.lognormal.sigma)
    if length.histogram:
        bins = list(itertools.pairwise(length.histogram.bounds))
        low, high = rng.choices(bins, length.histogram.weights)[0]
        return rng.randint(low, high)
    raise ValueError("a distribution without a law")
