"""A few fixed prompts whose outputs are compared, so that a fast wrong server is noticed.

The same for every cell, boot and load, so what the prefix cache holds of them is not known here:
their outputs are the result, their latencies are not. As many `requests` as `prompts` ask each
once.
"""

from __future__ import annotations

import itertools
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
    for number in itertools.cycle(range(spec.prompts)):
        yield Prompt(
            token_ids=drawn[number],
            output_tokens=spec.output_tokens,
            keep_answer=True,
            group=f"prompt-{number}",
            expected_hit_tokens=None,
        )


WORKLOAD = Workload(name="accuracy", spec=Accuracy, prompts=prompts, timed=False)
