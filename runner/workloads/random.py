"""Random token ids: every prompt different, exact lengths, no shared prefix beyond chance."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pydantic import PositiveInt

from runner.workloads import Prompt, Spec, Vocabulary, Workload


class Random(Spec):
    """Lengths of prompt and output in tokens."""

    input_tokens: PositiveInt
    output_tokens: PositiveInt


def prompts(spec: Random, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield prompts of exact lengths without end."""
    while True:
        yield Prompt(
            token_ids=vocabulary.ids(rng, spec.input_tokens), output_tokens=spec.output_tokens
        )


WORKLOAD = Workload(name="random", spec=Random, prompts=prompts)
