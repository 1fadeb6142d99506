"""The engine without sockets: what would happen, thousands of times faster than it would take.

The schedulers, caches and costs are the served ones; only the clock is free to jump. Equal steps
of decodes between two events count as one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from engines.sim.engine import Engine
from engines.sim.step import Request, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to simulate.

    Attributes:
        prompt: token ids, or a length for a prompt that shares nothing with any other.
        output_tokens: exact output length.
        due_s: when it is sent, in open loop.
        constrained: its output follows a grammar.
        group: what belongs together; carried through.
        role: part it plays; carried through.
    """

    prompt: Sequence[int] | int
    output_tokens: int
    due_s: float = 0.0
    constrained: bool = False
    group: str = ""
    role: str = ""


@dataclass(slots=True, kw_only=True)
class Timeline:
    """What happened to one request. Times are simulated seconds.

    Attributes:
        ask: what was asked.
        sent_s: when it was sent.
        token_s: when each token came.
        cached_tokens: prompt tokens found in the prefix cache.
        preemptions: times it was put back.
    """

    ask: Ask
    sent_s: float
    token_s: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    preemptions: int = 0
    _spans: list[tuple[int, int]] = field(default_factory=list)

    @property
    def ttft_s(self) -> float:
        """From the send to the first token."""
        return self.token_s[0] - self.sent_s

    @property
    def itl_s(self) -> list[float]:
        """Gaps between tokens."""
        return [b - a for a, b in zip(self.token_s, self.token_s[1:], strict=False)]

    @property
    def last_s(self) -> float:
        """When the last token came."""
        return self.token_s[-1]


def open_loop(
    engine: Engine, asks: Iterable[Ask], *, request_s: float = 0.0
) -> tuple[Timeline, ...]:
    """Return what happens to requests sent at their times, in the order they were given.

    `request_s` passes between the send and the moment the scheduler sees a request.
    """
    return _Run(engine, request_s).go([(ask.due_s, ask) for ask in asks], iter(()))


def closed_loop(
    engine: Engine,
    asks: Iterable[Ask],
    *,
    concurrency: int,
    request_s: float = 0.0,
    turn_s: float = 0.0,
) -> tuple[Timeline, ...]:
    """Return what happens to requests of which always `concurrency` are under way.

    `turn_s` passes between the end of one and the send of the next.
    """
    source = iter(asks)
    first = [(0.0, ask) for _, ask in zip(range(concurrency), source, strict=False)]
    return _Run(engine, request_s, turn_s).go(first, source)


class _Run:
    """One simulation under way."""

    def __init__(self, engine: Engine, request_s: float, turn_s: float = 0.0) -> None:
        self._engine = engine
        self._request_s = request_s
        self._turn_s = turn_s
        self._pending: list[tuple[float, int, Timeline]] = []
        self._lines: list[Timeline] = []
        self._ends: list[float] = []

    def go(self, first: Iterable[tuple[float, Ask]], source: Iterator[Ask]) -> tuple[Timeline, ...]:
        """Run until nothing is left."""
        for sent_s, ask in first:
            self._send(sent_s, ask)
        engine = self._engine
        while True:
            self._enter()
            ends = engine.begin(self._pending[0][0] if self._pending else math.inf)
            if not ends and not self._pending:
                break
            if not ends:
                engine.now_s = self._pending[0][0]
                continue
            step = engine.commit()
            self._note(step, ends)
            for request, ask in zip(step.finished, source, strict=False):
                self._send(request.owner.last_s + self._turn_s, ask)
        return tuple(self._lines)

    def _send(self, sent_s: float, ask: Ask) -> None:
        line = Timeline(ask=ask, sent_s=sent_s)
        heapq.heappush(self._pending, (sent_s + self._request_s, len(self._lines), line))
        self._lines.append(line)

    def _enter(self) -> None:
        """Give the scheduler what has arrived by now."""
        while self._pending and self._pending[0][0] <= self._engine.now_s:
            _, number, line = heapq.heappop(self._pending)
            ask = line.ask
            request = Request(
                number,
                ask.prompt,
                ask.output_tokens,
                constrained=ask.constrained,
                owner=line,
            )
            self._engine.add(request)

    def _note(self, step: Step, ends: list[float]) -> None:
        first = len(self._ends)
        self._ends += ends
        after = len(self._ends)
        for request in step.emitted:
            spans = request.owner._spans
            if spans and spans[-1][1] == first:
                spans[-1] = (spans[-1][0], after)
            else:
                spans.append((first, after))
        for request in step.finished:
            line = request.owner
            line.token_s = [end for a, b in line._spans for end in self._ends[a:b]]
            line.cached_tokens = request.cached or 0
            line.preemptions = request.preemptions
