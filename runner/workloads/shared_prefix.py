"""Prompts that begin alike: a few long prefixes, each followed by a text of its own."""

from __future__ import annotations

import random
from collections.abc import Iterator

from pydantic import Field, NonNegativeFloat, PositiveInt

from runner.workloads import Prompt, Spec, Vocabulary, Workload
from runner.workloads.lengths import Length, drawn


class SharedPrefix(Spec):
    """How much is shared, and by how many.

    Attributes:
        prefixes: number of prefixes; all must fit the KV cache together, or some are evicted.
        prefix_tokens: length of each prefix.
        suffix_tokens: length of what follows, different in every request.
        output_tokens: output length.
        share_ratio: share of requests that begin with one of the prefixes; the others are as
            long, and shared by nobody.
        zipf: popularity: the k-th prefix is asked for k^-zipf as often as the first; 0 is even.
    """

    prefixes: PositiveInt
    prefix_tokens: Length
    suffix_tokens: Length
    output_tokens: Length
    share_ratio: float = Field(default=1.0, gt=0, le=1)
    zipf: NonNegativeFloat = 0.0


def prompts(spec: SharedPrefix, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield prompts without end; the first of a prefix has the role `first`, others `later`."""
    prefixes = [vocabulary.ids(rng, drawn(spec.prefix_tokens, rng)) for _ in range(spec.prefixes)]
    weights = [rank**-spec.zipf for rank in range(1, spec.prefixes + 1)]
    used: set[int] = set()
    while True:
        number = rng.choices(range(spec.prefixes), weights)[0]
        shared = rng.random() < spec.share_ratio
        prefix = prefixes[number]
        beginning = prefix if shared else vocabulary.ids(rng, len(prefix))
        later = shared and number in used
        if shared:
            used.add(number)
        yield Prompt(
            token_ids=beginning + vocabulary.ids(rng, drawn(spec.suffix_tokens, rng)),
            output_tokens=drawn(spec.output_tokens, rng),
            group=f"prefix-{number}" if shared else "",
            role=("later" if later else "first") if shared else "alone",
            expected_hit_tokens=len(prefix) if later else 0,
        )


WORKLOAD = Workload(name="shared_prefix", spec=SharedPrefix, prompts=prompts)
