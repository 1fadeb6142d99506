"""Sessions whose later turns carry the earlier ones.

The answers that a later turn carries are scripted: random tokens of the length that was asked, not
what the server generated. So every body is known ahead and the same for all cells; what a turn can
find in the prefix cache is the whole prompt of the turn before, never the answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from runner.workloads import Prompt, Spec, Vocabulary, Workload
from runner.workloads.lengths import Length, drawn


class MultiTurn(Spec):
    """How long sessions are, and what each turn adds.

    Attributes:
        sessions: how many are live at once; one that ends is followed by a new one. In closed
            loop, the level should not be over it.
        turns: turns of a session.
        system_tokens: what every session begins with, the same in all.
        user_tokens: what the user adds in each turn.
        answer_tokens: length of each answer.
        tool_tokens: a fixed text that a tool adds after every answer, the same in all.
        think_s: from an answer's end to the next turn; the mean where it is drawn.
        think: law of the think time.
    """

    sessions: PositiveInt
    turns: Length
    system_tokens: NonNegativeInt = 0
    user_tokens: Length
    answer_tokens: Length
    tool_tokens: NonNegativeInt = 0
    think_s: NonNegativeFloat = 0.0
    think: Literal["constant", "exponential"] = "constant"


@dataclass(slots=True, kw_only=True)
class _Session:
    """One session as far as it has come.

    Attributes:
        number: counts the sessions of a load.
        turns_left: turns still to come.
        history: all tokens said so far.
        last: number of the prompt of its last turn.
        last_tokens: length of that prompt.
    """

    number: int
    turns_left: int
    history: list[int] = field(default_factory=list)
    last: int | None = None
    last_tokens: int = 0


def prompts(spec: MultiTurn, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield turns without end, one of each live session in turn; a session is a group."""
    system = vocabulary.ids(rng, spec.system_tokens)
    tool = vocabulary.ids(rng, spec.tool_tokens)
    live = [_begun(spec, rng, system, number) for number in range(spec.sessions)]
    begun, asked = spec.sessions, 0
    while True:
        for place, session in enumerate(live):
            yield _turn(spec, rng, vocabulary, session, tool, asked)
            asked += 1
            if session.turns_left == 0:
                live[place] = _begun(spec, rng, system, begun)
                begun += 1


def _begun(spec: MultiTurn, rng: random.Random, system: list[int], number: int) -> _Session:
    known = len(system) if number else 0
    turns = drawn(spec.turns, rng)
    return _Session(number=number, turns_left=turns, history=list(system), last_tokens=known)


def _turn(
    spec: MultiTurn,
    rng: random.Random,
    vocabulary: Vocabulary,
    session: _Session,
    tool: list[int],
    asked: int,
) -> Prompt:
    answer_tokens = drawn(spec.answer_tokens, rng)
    session.history += vocabulary.ids(rng, drawn(spec.user_tokens, rng))
    prompt = Prompt(
        token_ids=tuple(session.history),
        output_tokens=answer_tokens,
        group=f"session-{session.number}",
        role="first" if session.last is None else "later",
        after=session.last,
        think_s=_think(spec, rng) if session.last is not None else 0.0,
        expected_hit_tokens=session.last_tokens,
    )
    session.last, session.last_tokens = asked, len(session.history)
    session.history += vocabulary.ids(rng, answer_tokens) + tool
    session.turns_left -= 1
    return prompt


def _think(spec: MultiTurn, rng: random.Random) -> float:
    if spec.think == "exponential" and spec.think_s:
        return rng.expovariate(1 / spec.think_s)
    return spec.think_s


WORKLOAD = Workload(name="multi_turn", spec=MultiTurn, prompts=prompts)
