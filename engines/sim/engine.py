"""The engine's clock: runs one step while the next is planned, and knows when each ends.

Both engines plan a step ahead of the GPU (vLLM's asynchronous scheduling, SGLang's overlap): a
request that arrives during a step is seen two steps later, and KV that a step's last tokens free
is not there for the next. Served and offline run the same loop; offline lets one step of decodes
stand for many.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

from engines.sim.cost import Cost
from engines.sim.step import Request, Step


class Scheduler(Protocol):
    """What vLLM's and SGLang's schedulers have in common."""

    waiting: deque[Request]
    running: list[Request]
    query_tokens: int
    hit_tokens: int
    preemptions: int

    def add(self, request: Request) -> None:
        """Queue a request."""

    def abort(self, request: Request) -> None:
        """Drop a request wherever it is; only between steps."""

    def plan(self) -> Step | None:
        """Return the next step, None when there is nothing to do."""

    def most_repeats(self, step: Step) -> int:
        """Return how often a step of decodes could run before anything else changes."""

    def repeat(self, step: Step, times: int) -> None:
        """Let a step of decodes stand for `times` equal ones."""

    def advance(self, step: Step) -> None:
        """Count what a step computes, as known when it is launched."""

    def settle(self, step: Step) -> None:
        """Do what only a step's end brings: free what finished, make KV findable."""


class Engine:
    """A scheduler and the cost of its steps on one clock.

    Args:
        scheduler: decides what each step computes.
        cost: how long a step takes.
        pace: (simulated seconds) -> factor on every step's time: the boot's own, drift.
        noise_ratio: spread of one step's time.
        rng: what that spread is drawn from.
        ahead: the next step is planned while one runs.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        cost: Cost,
        *,
        pace: Callable[[float], float] = lambda now_s: 1.0,
        noise_ratio: float = 0.0,
        rng: random.Random | None = None,
        ahead: bool = True,
    ) -> None:
        self.scheduler = scheduler
        self.cost = cost
        self.pace = pace
        self.noise_ratio = noise_ratio
        self.rng = rng or random.Random(0)  # noqa: S311 - no secret depends on it
        self.ahead = ahead
        self.now_s = 0.0
        self.step: Step | None = None
        self._next: Step | None = None
        self._stale = False

    def add(self, request: Request) -> None:
        """Queue a request; a step that is planned already does not know of it."""
        self.scheduler.add(request)
        self._stale = True

    def abort(self, request: Request) -> None:
        """Drop a request wherever it is; only between steps."""
        if self._next is not None:
            request.computed += self._next.drop(request)
        self.scheduler.abort(request)
        self._stale = True

    def begin(self, horizon_s: float | None = None) -> list[float]:
        """Launch the next step at `now_s`; return when it ends, nothing when idle.

        With a horizon, one step of decodes stands for as many equal ones as begin before it: an
        arrival at the horizon changes nothing earlier. Each of them has its own end.
        """
        step, stale = self._next, self._stale
        if step is None or not (step.chunks or step.decodes):
            step, stale = self.scheduler.plan(), False
        self._next, self._stale = None, False
        if step is None:
            return []
        ends = self._ends(step, horizon_s, can_repeat=not (stale and self.scheduler.waiting))
        self.step = step
        self.now_s = ends[-1]
        self.scheduler.advance(step)
        if self.ahead:
            self._next = self.scheduler.plan()
        return ends

    def commit(self) -> Step:
        """End the running step and return it."""
        step = self.step
        if step is None:
            raise RuntimeError("commit without begin")
        self.scheduler.settle(step)
        self._stale = self._stale or bool(step.finished)
        self.step = None
        return step

    def _ends(self, step: Step, horizon_s: float | None, *, can_repeat: bool) -> list[float]:
        factor = self.pace(self.now_s)
        lasts_s = self.cost.seconds(step) * factor
        ends = [self.now_s + lasts_s * self._noise()]
        if horizon_s is None or not can_repeat or ends[0] >= horizon_s:
            return ends
        times = self.scheduler.most_repeats(step)
        growth_s = self.cost.growth_s(step) * factor
        while len(ends) < times and ends[-1] < horizon_s:
            lasts_s += growth_s
            ends.append(ends[-1] + lasts_s * self._noise())
        if len(ends) > 1:
            self.scheduler.repeat(step, len(ends))
        return ends

    def _noise(self) -> float:
        return max(0.5, self.rng.gauss(1.0, self.noise_ratio)) if self.noise_ratio else 1.0
