"""Streams that decode, and long prompts that arrive among them: what does the prefill do to ITL?

An open-loop load: the victims start together when the window opens; once they are steady the
injected prompts follow by the arrival law (`rate_per_s`). The load without injection is the same
with as many requests as victims.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from pydantic import NonNegativeFloat, PositiveInt

from runner.workloads import Prompt, Spec, Vocabulary, Workload
from runner.workloads.lengths import Length, drawn

VICTIM = "victim"
INJECTED = "injected"


class Interference(Spec):
    """Who decodes, and what is injected.

    Attributes:
        victims: streams that decode; keep them under `max_running`, or nothing is injected.
        steady_s: how long they decode before the arrivals of injected prompts begin.
        victim_input_tokens: their prompts, short.
        victim_output_tokens: their outputs, long enough to outlast the last injection.
        injected_input_tokens: the long prompts.
        injected_output_tokens: their outputs, short.
    """

    victims: PositiveInt = 1
    steady_s: NonNegativeFloat
    victim_input_tokens: Length
    victim_output_tokens: Length
    injected_input_tokens: Length
    injected_output_tokens: Length


def prompts(spec: Interference, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield the victims, then injected prompts without end."""
    for _ in range(spec.victims):
        yield Prompt(
            token_ids=vocabulary.ids(rng, drawn(spec.victim_input_tokens, rng)),
            output_tokens=drawn(spec.victim_output_tokens, rng),
            role=VICTIM,
            due_s=0.0,
        )
    while True:
        yield Prompt(
            token_ids=vocabulary.ids(rng, drawn(spec.injected_input_tokens, rng)),
            output_tokens=drawn(spec.injected_output_tokens, rng),
            role=INJECTED,
            offset_s=spec.steady_s,
        )


WORKLOAD = Workload(name="interference", spec=Interference, prompts=prompts)
