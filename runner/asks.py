"""From a workload's prompts to the requests of one load, in the engine's words. Pure, seeded."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from engines import Engine, Sampling
from runner import workloads
from runner.levels import Load
from runner.load import Ask
from runner.load.arrivals import due_times
from runner.workloads import Prompt, Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Everything that decides which prompts a load sends.

    The same for all cells of a block, so that a block compares equal work; different for every
    boot, load and repeat, so that no prompt is ever sent twice.
    """

    seed: int
    boot: int
    load: str
    repeat: int

    def rng(self, purpose: str) -> random.Random:
        """Return the random numbers of one purpose; each purpose has its own."""
        text = f"{self.seed}/{self.boot}/{self.load}/{self.repeat}/{purpose}"
        return random.Random(text)  # noqa: S311 - prompts and arrivals, not secrets


def prompts_of(load: Load, draw: Draw, vocabulary: Vocabulary, purpose: str) -> Iterator[Prompt]:
    """Yield a load's prompts: as many as it asks, or without end where time ends the window."""
    kind = workloads.get(load.workload)
    endless = kind.prompts(load.spec, draw.rng(purpose), vocabulary)
    count = load.warmup_requests if purpose == "warmup" else load.requests
    return itertools.islice(endless, count)


def asks_of(
    load: Load, draw: Draw, vocabulary: Vocabulary, engine: Engine, model: str, purpose: str
) -> Iterator[Ask]:
    """Yield the requests of a load's window (`purpose` = `window`) or of its warm-up (`warmup`)."""
    prompts = prompts_of(load, draw, vocabulary, purpose)
    sampling = load.keys.sampling.sampling()
    if purpose == "warmup" or load.in_flight is not None:
        return (_ask(prompt, engine, model, sampling, prompt.due_s) for prompt in prompts)
    times = due_times(
        load.keys.arrivals, load.level, draw.rng("arrivals"), burstiness=load.keys.burstiness
    )
    return (
        _ask(prompt, engine, model, sampling, due_s)
        for prompt, due_s in zip(prompts, times, strict=False)
    )


def _ask(
    prompt: Prompt, engine: Engine, model: str, sampling: Sampling, due_s: float | None
) -> Ask:
    body = engine.completion(model, prompt.token_ids, prompt.output_tokens, sampling)
    return Ask(
        body=json.dumps(body, separators=(",", ":")).encode(),
        input_tokens=len(prompt.token_ids),
        output_tokens=prompt.output_tokens,
        group=prompt.group,
        role=prompt.role,
        due_s=due_s,
    )
