"""From a workload's prompts to the requests of one load, in the engine's words. Pure, seeded."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from engines import Engine, Sampling
from runner import workloads
from runner.errors import ExperimentError
from runner.experiment.levels import Load
from runner.experiment.paces import pace_of
from runner.load import Ask
from runner.load.arrivals import POISSON, Constant, Gamma, Law, due_times
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


def refusal_of(load: Load, engine: Engine) -> str | None:
    """Return why an engine cannot be asked a load, None where it can."""
    if workloads.get(load.workload).chats(load.spec) and engine.chat is None:
        return f"{load.load} chats, and {engine.name} has no chats; leave it out for {engine.name}"
    return None


def path_of(load: Load, engine: Engine) -> str:
    """Return the request path of a load: of chats where its workload chats, else completions."""
    chats = workloads.get(load.workload).chats(load.spec)
    return engine.chat_path if chats else engine.completions_path


def asks_of(
    load: Load, draw: Draw, vocabulary: Vocabulary, engine: Engine, model: str, purpose: str
) -> Iterator[Ask]:
    """Yield the requests of a load's window (`purpose` = `window`) or of its warm-up (`warmup`).

    In open loop a prompt's own time, at the load's speed, wins over the arrival law; a later turn
    of a session has neither, for it follows the answer before it. A warm-up has no times, but for
    that of a probe: its window opens upon arrivals that go on.

    Raises:
        ExperimentError: the engine cannot be asked this load.
    """
    if refusal := refusal_of(load, engine):
        raise ExperimentError(refusal)
    sampling = load.keys.sampling.sampling()
    timed = load.in_flight is None and (purpose != "warmup" or load.probe is not None)
    times = _times(load, draw, purpose) if timed else iter(())
    for prompt in prompts_of(load, draw, vocabulary, purpose):
        due_s = None
        if timed and prompt.after is None:
            due_s = own_s(prompt, load) if prompt.due_s is not None else next(times)
            due_s += prompt.offset_s
        body = _body(prompt, engine, model, sampling)
        yield Ask(
            body=json.dumps(body, separators=(",", ":")).encode(),
            input_tokens=len(prompt.token_ids) if prompt.chat is None else None,
            output_tokens=prompt.output_tokens if _is_exact(prompt) else None,
            group=prompt.group,
            role=prompt.role,
            due_s=due_s,
            after=prompt.after,
            think_s=prompt.think_s,
            keep_answer=prompt.keep_answer and purpose != "warmup",
        )


def expected_hit_tokens(prompts: Iterable[Prompt]) -> int | None:
    """Return the prompt tokens shared by construction; None where any prompt's are unknown."""
    total = 0
    for prompt in prompts:
        if prompt.expected_hit_tokens is None:
            return None
        total += prompt.expected_hit_tokens
    return total


def own_s(prompt: Prompt, load: Load) -> float:
    """Return a prompt's own time, as fast as the load runs them."""
    return (prompt.due_s or 0.0) / (load.level if load.level_kind == "speed" else 1.0)


def _times(load: Load, draw: Draw, purpose: str) -> Iterator[float]:
    """Return the times of the load's arrival law at its rate."""
    keys = load.keys
    laws: dict[str, Law] = {
        "poisson": POISSON,
        "constant": Constant(),
        "gamma": Gamma(keys.burstiness),
    }
    name = "arrivals" if purpose == "window" else f"{purpose} arrivals"
    return due_times(laws[keys.arrivals], pace_of(load), draw.rng(name))


def _is_exact(prompt: Prompt) -> bool:
    return prompt.chat is None or prompt.chat.exact


def _body(prompt: Prompt, engine: Engine, model: str, sampling: Sampling) -> dict[str, object]:
    """Return a prompt in the engine's words."""
    if prompt.chat is None:
        extra = engine.token_ids if prompt.keep_answer else {}
        body = engine.completion(model, prompt.token_ids, prompt.output_tokens, sampling)
        return {**body, **extra}
    if engine.chat is None:
        raise ExperimentError(f"{engine.name} has no chats")
    return engine.chat(model, prompt.chat, prompt.output_tokens, sampling)
