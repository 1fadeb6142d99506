"""A boot that is never started: its log, its facts and what it would do under load, offline.

The one door of the simulated engine for whoever wants to know before. Faults that are ordered for
a load are left out: only what the engine would do by itself is predicted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from engines.sim import asked, options, profile
from engines.sim.dialect import Reply
from engines.sim.dialects import boot
from engines.sim.life import error_in, startup_s
from engines.sim.offline import Timeline
from engines.sim.offline import simulate as simulated
from engines.sim.profile import Profile
from engines.sim.setup import RefusalError
from engines.sim.source import APART_S, TURN_S, Ask, Pattern
from engines.sim.step import Request

_WARMING = 16
"""Requests under way at once in the warm-up of an open loop."""


class Wanted(Protocol):
    """One request as a client would send it."""

    @property
    def body(self) -> bytes:
        """The JSON body."""

    @property
    def due_s(self) -> float | None:
        """When it is sent, from the window's opening; None in closed loop."""

    @property
    def after(self) -> int | None:
        """Number, within the window or the warm-up, of the request whose answer it waits for."""

    @property
    def think_s(self) -> float:
        """How long after that answer it is sent."""

    @property
    def keep_answer(self) -> bool:
        """Whether the answer's text is wanted."""

    @property
    def group(self) -> str:
        """What belongs together."""

    @property
    def role(self) -> str:
        """The part it plays."""


def profile_of(gpu: str) -> Profile:
    """Return a GPU profile by its name, or by the path of its TOML file.

    Raises:
        ValueError: there is no such profile; the message lists those there are.
    """
    return profile.load(gpu)


class Boot:
    """One server life, foretold.

    Args:
        argv: the command line of `python -m engines.sim`, whose speed does not count here.

    Attributes:
        log: what its log says so far.
        alive: it started, and has not died since.
        ready_s: from its start until it serves; None when it never does.

    Raises:
        ValueError: a property is unknown, or there is no such GPU profile.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self.log: list[str] = []
        self.alive = False
        self.ready_s: float | None = None
        self._grammars: set[str] = set()
        simulate, flags = options.taken_from(argv[1:])
        refusal = io.StringIO()
        try:
            with contextlib.redirect_stderr(refusal):
                self._dialect, self._twin = boot(
                    argv[0], flags, dataclasses.replace(simulate, speed=1.0)
                )
        except SystemExit:
            self.log += refusal.getvalue().splitlines()
        except RefusalError as error:
            self.log += error.lines.splitlines()
        else:
            self._start()

    def _start(self) -> None:
        for phase in self._dialect.phases(self._twin):
            error = error_in(self._dialect, self._twin, phase.name)
            self.log += phase.lines if error is None or phase.name == "start" else ()
            if error is not None:
                self.log += self._dialect.failed_start(self._twin, error)
                return
        # nobody but us reads its pages
        self._twin.setup = dataclasses.replace(self._twin.setup, control=True)
        self.log += self._dialect.warm(self._twin)
        self.ready_s = startup_s(self._twin)
        self.alive = True

    @property
    def now_s(self) -> float:
        """Simulated seconds since it served."""
        return self._twin.engine.now_s

    @property
    def counters(self) -> dict[str, float]:
        """Its running totals, by the names that pages of both engines are read under."""
        scheduler = self._twin.scheduler
        return {
            "prefix_query_tokens": scheduler.query_tokens,
            "prefix_hit_tokens": scheduler.hit_tokens,
            "preemptions": scheduler.preemptions,
        }

    def page(self, path: str, query: Mapping[str, str]) -> tuple[int, bytes]:
        """Return status and body of one of its pages."""
        reply = self._dialect.page(self._twin, "GET", path, query) or Reply(body=b"", status=404)
        return reply.status, reply.body

    def flush(self) -> bool:
        """Empty the prefix cache; tell whether that was possible."""
        return not self._twin.simulate.stuck_flush and self._twin.cache.reset()

    def load(
        self,
        path: str,
        wanted: Iterable[Wanted],
        *,
        warmup: Sequence[Wanted] = (),
        concurrency: int | None,
        duration_s: float | None = None,
    ) -> tuple[float, tuple[Timeline, ...]]:
        """Return when the window opens, and what happens to each request, the warm-up's first.

        In closed loop the warm-up hands its slots over without a drain. In open loop, one whose
        requests have their own times arrives until the window opens, and any other is answered
        before.

        Args:
            path: request path.
            wanted: the window's requests, taken as they are needed.
            warmup: requests before the window.
            concurrency: how many are under way at once; None sends each at its own time.
            duration_s: nothing is sent so long after the window opened.
        """
        if concurrency is None and not any(one.due_s is not None for one in warmup):
            warm = self._simulated(path, warmup, 0, Pattern(concurrency=_WARMING))
            opened_s = self.now_s
            window = self._simulated(path, wanted, len(warm), Pattern(duration_s=duration_s))
            return opened_s, (*_warm(warm), *window)
        before, began_s = len(warmup), self.now_s
        pattern = Pattern(
            concurrency=concurrency,
            before=before,
            duration_s=duration_s,
            opens_s=max((one.due_s or 0.0 for one in warmup), default=0.0),
        )
        lines = self._simulated(path, itertools.chain(warmup, wanted), 0, pattern)
        opened_s = began_s + pattern.opens_s
        if concurrency is not None:
            opened_s = min([line.sent_s for line in lines[before:]], default=self.now_s)
        return opened_s, (*_warm(lines[:before]), *lines[before:])

    def _simulated(
        self, path: str, wanted: Iterable[Wanted], first: int, pattern: Pattern
    ) -> tuple[Timeline, ...]:
        """Simulate requests that are numbered from `first` on."""
        request_s = self._twin.overheads.request_s
        sent = dataclasses.replace(pattern, request_s=request_s, turn_s=TURN_S, apart_s=APART_S)
        asks = (
            self._ask(path, one, pattern if number >= pattern.before else Pattern())
            for number, one in enumerate(wanted)
        )
        lines = simulated(self._twin.engine, asks, sent)
        for line in lines:
            line.number += first
        return lines

    def _ask(self, path: str, one: Wanted, since: Pattern) -> Ask:
        """Return a request as it is simulated, counted from what comes before its window."""
        beside: dict[str, Any] = {
            "due_s": (one.due_s or 0.0) + since.opens_s,
            "after": None if one.after is None else one.after + since.before,
            "think_s": one.think_s,
            "group": one.group,
            "role": one.role,
        }
        try:
            found = asked.read(self._twin.setup, path, one.body, self._twin.kv_tokens)
        except asked.BadRequestError as error:
            return Ask(prompt=1, output_tokens=1, refused=error.message, **beside)
        return Ask(
            prompt=found.prompt,
            output_tokens=found.output_tokens,
            limit_tokens=found.limit_tokens,
            fixed_length=found.fixed_length,
            constrained=bool(found.grammar),
            grammar_s=self._grammar_s(found.grammar),
            answer=self._answer(found) if one.keep_answer else None,
            **beside,
        )

    def _answer(self, found: asked.Asked) -> str:
        """Return what a server would write."""
        request = Request(0, found.prompt, found.output_tokens)
        request.seed += self._twin.simulate.wrong_answers
        return "".join(found.text_at(place, request) for place in range(found.output_tokens))

    def _grammar_s(self, grammar: str) -> float:
        """Return how long a grammar takes to compile; the first of all may end the engine."""
        if not grammar or grammar in self._grammars:
            return 0.0
        if not self._grammars:
            lines, survives = self._dialect.first_grammar(self._twin)
            self.log += lines
            if not survives:
                self.log += self._dialect.death(self._twin, self._dialect.crash(self._twin, "load"))
                self.alive = False
        self._grammars.add(grammar)
        return self._twin.profile.grammar_s


def _warm(lines: tuple[Timeline, ...]) -> tuple[Timeline, ...]:
    """Mark requests as those before the window."""
    for line in lines:
        line.warmup = True
    return lines
