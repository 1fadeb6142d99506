"""Many requests at one moment, again and again: the shape of the queue that they form.

An open-loop load with times of its own: `burst = [8, 64]` says how many come at one moment, or
`size` does and `speed = [1.0, 2.0]` says how fast they follow each other.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Self

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from runner.workloads import Prompt, Spec, Vocabulary, Workload
from runner.workloads.lengths import Length, drawn


class Burst(Spec):
    """How many at once, and how often.

    Attributes:
        size: requests of one burst.
        every_s: from one burst to the next.
        spread_s: a burst's requests come evenly over this time instead of at one moment.
        input_tokens: prompt length.
        output_tokens: output length.
    """

    size: PositiveInt
    every_s: PositiveFloat
    spread_s: NonNegativeFloat = 0.0
    input_tokens: Length
    output_tokens: Length

    @model_validator(mode="after")
    def _one_after_another(self) -> Self:
        if self.spread_s > self.every_s:
            raise ValueError("spread_s is over every_s, so bursts would run into each other")
        return self


def prompts(spec: Burst, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield burst after burst without end; a burst is a group."""
    for number in itertools.count():
        for place in range(spec.size):
            yield Prompt(
                token_ids=vocabulary.ids(rng, drawn(spec.input_tokens, rng)),
                output_tokens=drawn(spec.output_tokens, rng),
                group=f"burst-{number}",
                due_s=number * spec.every_s + spec.spread_s * place / spec.size,
            )


WORKLOAD = Workload(name="burst", spec=Burst, prompts=prompts, times="own")
