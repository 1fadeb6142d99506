"""A few fixed prompts whose outputs are compared, so that a fast wrong server is noticed.

The same for every cell, boot and load: ask them once per load (`requests` equal to `prompts`,
`warmup = 0`), or the later ones come from the prefix cache.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from pydantic import PositiveInt

from runner.workloads import Prompt, Spec, Vocabulary, Workload


class Accuracy(Spec):
    """The fixed prompts.

    Attributes:
        prompts: how many different ones.
        input_tokens: length of each.
        output_tokens: tokens compared of each.
        prompts_seed: what they are drawn from; never the experiment's seed.
    """

    prompts: PositiveInt = 8
    input_tokens: PositiveInt = 128
    output_tokens: PositiveInt = 64
    prompts_seed: int = 0


def prompts(spec: Accuracy, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield the fixed prompts again and again; the load's own random numbers are left alone."""
    fixed = random.Random(f"accuracy/{spec.prompts_seed}")  # noqa: S311 - prompts, not secrets
    drawn = [vocabulary.ids(fixed, spec.input_tokens) for _ in range(spec.prompts)]
    again = False
    while True:
        for number, token_ids in enumerate(drawn):
            yield Prompt(
                token_ids=token_ids,
                output_tokens=spec.output_tokens,
                keep_answer=True,
                group=f"prompt-{number}",
                expected_hit_tokens=spec.input_tokens if again else 0,
            )
        again = True


WORKLOAD = Workload(name="accuracy", spec=Accuracy, prompts=prompts)
