"""The engine without sockets: what would happen, thousands of times faster than it would take.

The schedulers, caches and costs are the served ones; only the clock is free to jump. Equal steps
of decodes between two events count as one.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from engines.sim.engine import Engine
from engines.sim.source import Ask, Pattern, Source
from engines.sim.step import Request, Step


@dataclass(slots=True, kw_only=True)
class Timeline:
    """What happened to one request. Times are simulated seconds.

    Attributes:
        number: its place among those asked, from 0.
        ask: what was asked.
        sent_s: when it was sent.
        warmup: it was sent before the window.
        token_s: when each token came.
        ended_s: when the answer or its refusal was whole.
        cached_tokens: prompt tokens found in the prefix cache.
        preemptions: times it was put back.
    """

    number: int
    ask: Ask
    sent_s: float
    warmup: bool = False
    token_s: list[float] = field(default_factory=list)
    ended_s: float = math.inf
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


def simulate(engine: Engine, asks: Iterable[Ask], pattern: Pattern) -> tuple[Timeline, ...]:
    """Return what happens to requests, from the engine's present moment on, in their order."""
    return _Run(engine, asks, pattern).go()


def open_loop(
    engine: Engine, asks: Iterable[Ask], *, request_s: float = 0.0
) -> tuple[Timeline, ...]:
    """Return what happens to requests sent at their times."""
    return simulate(engine, asks, Pattern(request_s=request_s))


def closed_loop(
    engine: Engine,
    asks: Iterable[Ask],
    *,
    concurrency: int,
    request_s: float = 0.0,
    turn_s: float = 0.0,
    apart_s: float = 0.0,
) -> tuple[Timeline, ...]:
    """Return what happens to requests of which always `concurrency` are under way."""
    pattern = Pattern(concurrency=concurrency, request_s=request_s, turn_s=turn_s, apart_s=apart_s)
    return simulate(engine, asks, pattern)


class _Run:
    """One simulation under way."""

    def __init__(self, engine: Engine, asks: Iterable[Ask], pattern: Pattern) -> None:
        self._engine = engine
        self._pattern = pattern
        self._source = Source(asks, pattern, engine.now_s)
        self._pending: list[tuple[float, int, Timeline]] = []
        self._lines: list[Timeline] = []
        self._ends: list[float] = []
        self._seen_s = -math.inf

    def go(self) -> tuple[Timeline, ...]:
        """Run until nothing is left."""
        engine = self._engine
        self._send(engine.now_s)
        while True:
            self._enter()
            ends = engine.begin(self._arrival_s())
            if not ends and not self._pending:
                break
            if not ends:
                engine.now_s = max(engine.now_s, self._arrival_s())
                continue
            step = engine.commit()
            self._note(step, ends)
            for request in step.finished:
                self._end(request.owner, request.owner.last_s)
        return tuple(sorted(self._lines, key=lambda line: line.number))

    def _send(self, now_s: float) -> None:
        for sent_s, number, ask in self._source.send(now_s):
            line = Timeline(number=number, ask=ask, sent_s=sent_s)
            seen_s = sent_s + self._pattern.request_s + ask.grammar_s
            heapq.heappush(self._pending, (seen_s, number, line))
            self._lines.append(line)

    def _end(self, line: Timeline, ended_s: float) -> None:
        line.ended_s = ended_s
        after_s = ended_s + self._pattern.turn_s
        self._source.ended(line.number, after_s, whole=not line.ask.refused)
        self._send(after_s)

    def _arrival_s(self) -> float:
        """Return when the scheduler sees the next request; infinite where none is on its way."""
        if not self._pending:
            return math.inf
        return max(self._pending[0][0], self._seen_s + self._pattern.apart_s)

    def _enter(self) -> None:
        """Give the scheduler what has arrived by now."""
        while (seen_s := self._arrival_s()) <= self._engine.now_s:
            _, number, line = heapq.heappop(self._pending)
            self._seen_s = seen_s
            ask = line.ask
            if ask.refused:
                self._end(line, seen_s)
                continue
            request = Request(
                number,
                ask.prompt,
                ask.output_tokens,
                limit_tokens=ask.limit_tokens,
                fixed_length=ask.fixed_length,
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
