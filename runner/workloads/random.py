"""Random token ids: every prompt different, exact lengths, no shared prefix beyond chance."""

from __future__ import annotations

import random
from collections.abc import Iterator

from runner.workloads import Prompt, Spec, Vocabulary, Workload
from runner.workloads.lengths import Length, drawn


class Random(Spec):
    """Lengths of prompt and output in tokens."""

    input_tokens: Length
    output_tokens: Length


def prompts(spec: Random, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield prompts without end."""
    while True:
        yield Prompt(
            token_ids=vocabulary.ids(rng, drawn(spec.input_tokens, rng)),
            output_tokens=drawn(spec.output_tokens, rng),
        )


WORKLOAD = Workload(name="random", spec=Random, prompts=prompts, alike=True)
