"""The engine's clock: plans a step, knows when it ends, does what it computed.

Served and offline run the same loop; offline lets one step of decodes stand for many.
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

    def commit(self, step: Step) -> None:
        """Do what a step computed."""


class Engine:
    """A scheduler and the cost of its steps on one clock.

    Args:
        scheduler: decides what each step computes.
        cost: how long a step takes.
        pace: (simulated seconds) -> factor on every step's time: the boot's own, drift.
        noise_ratio: spread of one step's time.
        rng: what that spread is drawn from.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        cost: Cost,
        *,
        pace: Callable[[float], float] = lambda now_s: 1.0,
        noise_ratio: float = 0.0,
        rng: random.Random | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.cost = cost
        self.pace = pace
        self.noise_ratio = noise_ratio
        self.rng = rng or random.Random(0)  # noqa: S311 - no secret depends on it
        self.now_s = 0.0
        self.step: Step | None = None

    def begin(self, horizon_s: float | None = None) -> list[float]:
        """Plan the next step from `now_s` on; return when it ends, nothing when idle.

        With a horizon, one step of decodes stands for as many equal ones as begin before it: an
        arrival at the horizon changes nothing earlier. Each of them has its own end.
        """
        step = self.scheduler.plan()
        if step is None:
            return []
        factor = self.pace(self.now_s)
        lasts_s = self.cost.seconds(step) * factor
        times = 1 if horizon_s is None else self.scheduler.most_repeats(step)
        growth_s = self.cost.growth_s(step) * factor if times > 1 else 0.0
        ends = [self.now_s + lasts_s * self._noise()]
        while len(ends) < times and horizon_s is not None and ends[-1] < horizon_s:
            lasts_s += growth_s
            ends.append(ends[-1] + lasts_s * self._noise())
        if len(ends) > 1:
            self.scheduler.repeat(step, len(ends))
        self.step = step
        self.now_s = ends[-1]
        return ends

    def commit(self) -> Step:
        """Do what the planned step computed and return it."""
        step = self.step
        if step is None:
            raise RuntimeError("commit without begin")
        self.scheduler.commit(step)
        self.step = None
        return step

    def _noise(self) -> float:
        return max(0.5, self.rng.gauss(1.0, self.noise_ratio)) if self.noise_ratio else 1.0
