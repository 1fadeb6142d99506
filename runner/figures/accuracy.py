"""Whether two servers said the same: greedy outputs of the same prompts, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Outputs of two loads of the same fixed prompts.

    Attributes:
        prompts: prompts that both answered.
        equal_prompts: those answered the same, token by token.
        equal_firsts: those whose answers begin with the same token.
        tokens: tokens of these answers, the longer of each pair.
        leading_tokens: tokens before the first that differs: after it a greedy output goes its
            own way, so nothing later is counted.
    """

    prompts: int
    equal_prompts: int
    equal_firsts: int
    tokens: int
    leading_tokens: int

    @property
    def equal_ratio(self) -> float | None:
        """Return the share of tokens before the first that differs."""
        return self.leading_tokens / self.tokens if self.tokens else None

    @property
    def first_ratio(self) -> float | None:
        """Return the share of prompts whose answers begin with the same token."""
        return self.equal_firsts / self.prompts if self.prompts else None


def agreement(one: Mapping[str, Sequence[int]], other: Mapping[str, Sequence[int]]) -> Agreement:
    """Compare answers by prompt: prompt -> token ids of its answer."""
    pairs = [(one[name], other[name]) for name in one if name in other]
    return Agreement(
        prompts=len(pairs),
        equal_prompts=sum(list(a) == list(b) for a, b in pairs),
        equal_firsts=sum(_leading(a[:1], b[:1]) == 1 for a, b in pairs),
        tokens=sum(max(len(a), len(b)) for a, b in pairs),
        leading_tokens=sum(_leading(a, b) for a, b in pairs),
    )


def _leading(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
