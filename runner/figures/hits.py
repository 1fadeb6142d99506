"""Measured hits of the prefix cache against those that the prompts share by construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runner.figures.latency import served
from runner.load import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """One load; only requests of which both numbers are known are counted.

    Attributes:
        requests: how many are counted.
        prompt_tokens: their prompt tokens.
        expected_tokens: prompt tokens shared by construction.
        measured_tokens: prompt tokens that the server says came from its cache.
        within: requests whose measured hits are within one block of the expected.
        missed: requests with fewer: the prefix was evicted, or not there yet.
        surplus: requests with more: something else was shared.
    """

    requests: int
    prompt_tokens: int
    expected_tokens: int
    measured_tokens: int
    within: int
    missed: int
    surplus: int

    @property
    def surplus_ratio(self) -> float:
        """Return the hits beyond the construction as a share of all prompt tokens."""
        if not self.prompt_tokens:
            return 0.0
        return (self.measured_tokens - self.expected_tokens) / self.prompt_tokens


def hits(
    timelines: Iterable[Timeline], expected: Mapping[int, int | None], block_tokens: int
) -> Hits:
    """Hold each request's cached tokens against its construction.

    Args:
        timelines: one load.
        expected: request number -> tokens shared by construction, None where nobody knows.
        block_tokens: what the cache counts in: vLLM's block, SGLang's page. A server can hit full
            blocks only, and always computes at least the last token of a prompt.
    """
    pairs = [
        (one.input_tokens or 0, wanted, one.cached_tokens)
        for one in timelines
        if served(one)
        and (wanted := expected.get(one.request)) is not None
        and one.cached_tokens is not None
    ]
    differences = [cached - wanted for _, wanted, cached in pairs]
    return Hits(
        requests=len(pairs),
        prompt_tokens=sum(tokens for tokens, _, _ in pairs),
        expected_tokens=sum(wanted for _, wanted, _ in pairs),
        measured_tokens=sum(cached for _, _, cached in pairs),
        within=sum(abs(difference) <= block_tokens for difference in differences),
        missed=sum(difference < -block_tokens for difference in differences),
        surplus=sum(difference > block_tokens for difference in differences),
    )
