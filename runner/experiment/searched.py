"""The keys of a search for capacity, and of what a capacity is worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from runner.experiment.keys import Keys

_WORDS: Final = {
    "ttft_p99_s": "TTFT p99 <= {:g} s",
    "tpot_p99_ms": "TPOT p99 <= {:g} ms",
    "itl_p99_ms": "ITL p99 <= {:g} ms",
    "e2e_p99_s": "whole requests p99 <= {:g} s",
}
_WORDS_OF_REQUESTS: Final = {
    "ttft_s": "TTFT <= {:g} s",
    "tpot_ms": "TPOT <= {:g} ms",
    "e2e_s": "<= {:g} s in all",
}


class Rates(Keys):
    """Arrivals per second between which capacity is looked for."""

    low: PositiveFloat
    high: PositiveFloat


class Streams(Keys):
    """Requests in flight between which capacity is looked for."""

    low: PositiveInt
    high: PositiveInt


class SloKeys(Keys):
    """What a level must keep: limits of quantiles, or a share of requests within limits of theirs.

    Attributes:
        ttft_p99_s: limit of the 99 % quantile of time to first token.
        tpot_p99_ms: the same of time per output token.
        itl_p99_ms: the same of gaps between chunks.
        e2e_p99_s: the same of whole requests.
        goodput_ratio: smallest share of all requests that succeed within the three limits below.
        ttft_s: longest time to first token of a single request.
        tpot_ms: longest time per output token of a single request.
        e2e_s: longest time of a single request.
    """

    ttft_p99_s: PositiveFloat | None = None
    tpot_p99_ms: PositiveFloat | None = None
    itl_p99_ms: PositiveFloat | None = None
    e2e_p99_s: PositiveFloat | None = None
    goodput_ratio: float | None = Field(default=None, gt=0, le=1)
    ttft_s: PositiveFloat | None = None
    tpot_ms: PositiveFloat | None = None
    e2e_s: PositiveFloat | None = None

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        given = self.model_dump(exclude_none=True)
        of_requests = [key for key in _WORDS_OF_REQUESTS if key in given]
        if not given:
            raise ValueError("asks nothing; write ttft_p99_s = 2, tpot_p99_ms = 50, ...")
        if self.goodput_ratio is None and of_requests:
            raise ValueError(f"{of_requests[0]} limits single requests; add goodput_ratio = 0.95")
        if self.goodput_ratio is not None and not of_requests:
            raise ValueError("goodput_ratio needs limits of requests: ttft_s, tpot_ms or e2e_s")
        return self

    @property
    def quantile(self) -> float:
        """Return the largest quantile that must be known."""
        asks_p99 = any(self._said(_WORDS))
        return 0.99 if asks_p99 else min(self.goodput_ratio or 0.0, 0.99)

    @property
    def told(self) -> str:
        """Return it as a reader says it: `TTFT p99 <= 2 s and TPOT p99 <= 50 ms`."""
        said = [*self._said(_WORDS)]
        if self.goodput_ratio is not None:
            singly = " and ".join(self._said(_WORDS_OF_REQUESTS))
            said.append(f"{100 * self.goodput_ratio:g} % of requests with {singly}")
        return " and ".join(said)

    def _said(self, words: Mapping[str, str]) -> Iterator[str]:
        for key, text in words.items():
            if (limit := getattr(self, key)) is not None:
                yield text.format(limit)


class Search(Keys):
    """`search`: the highest level that meets an SLO, by bracketing and then bisection.

    Attributes:
        rate_per_s: look between two rates of arrivals (open loop).
        concurrency: look between two numbers in flight (closed loop).
        slo: what a level must keep.
        within_ratio: stop when the lowest miss is at most so much above the highest met level.
        settle_s: arrivals go on so long before each window opens; at least as long as a request
            takes while the server is not busy.
    """

    rate_per_s: Rates | None = None
    concurrency: Streams | None = None
    slo: SloKeys
    within_ratio: PositiveFloat = 0.05
    settle_s: PositiveFloat = 10.0

    @model_validator(mode="after")
    def _one_range(self) -> Self:
        if (self.rate_per_s is None) == (self.concurrency is None):
            raise ValueError("give exactly one of rate_per_s and concurrency to the search")
        if self.span.low >= self.span.high:
            raise ValueError(f"low = {self.span.low:g} must be under high = {self.span.high:g}")
        return self

    @property
    def span(self) -> Rates | Streams:
        """Return the range that is given."""
        found = self.rate_per_s or self.concurrency
        if found is None:
            raise ValueError("a search without a range")
        return found


class Capacity(Keys):
    """`[capacity]`: how many servers a peak needs. It changes no measurement.

    Attributes:
        peak_per_s: requests per second at the busiest time.
        utilisation_ratio: share of its capacity that a server is loaded with at the peak.
        spares: servers beside those that the peak needs.
    """

    peak_per_s: PositiveFloat
    utilisation_ratio: float = Field(default=0.8, gt=0, le=1)
    spares: NonNegativeInt = 0
