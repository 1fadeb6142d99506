"""vLLM's scheduler: every running request first, then new ones, in one budget of tokens.

A step serves decodes and prefill chunks together. A running request that lacks a block makes the
latest one give up its KV and start again (preemption by recompute); nothing new is admitted in
such a step. A waiting request is admitted when its whole prompt would fit.
"""

from __future__ import annotations

from collections import deque

from engines.sim.step import Request, Step
from engines.sim.vllm.blocks import BlockCache


class VllmScheduler:
    """First come, first served.

    Args:
        cache: the KV blocks.
        max_running: most requests that run at once.
        budget_tokens: most tokens of one step, decodes included.
        chunked: a prompt may be split over steps.
    """

    def __init__(
        self, cache: BlockCache, *, max_running: int, budget_tokens: int, chunked: bool = True
    ) -> None:
        self.cache = cache
        self.max_running = max_running
        self.budget_tokens = budget_tokens
        self.chunked = chunked
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.query_tokens = 0
        self.hit_tokens = 0
        self.preemptions = 0

    def add(self, request: Request) -> None:
        """Queue a request."""
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Drop a request wherever it is."""
        if request in self.running:
            self.running.remove(request)
            self.cache.release(request)
        elif request in self.waiting:
            self.waiting.remove(request)

    def plan(self) -> Step | None:
        """Return the next step, None when there is nothing to do."""
        step = Step()
        budget = self._continue(step)
        if not step.preempted:
            self._admit(step, budget)
        return step if step.chunks or step.decodes else None

    def most_repeats(self, step: Step) -> int:
        """Return how often a step of decodes could run before anything else changes."""
        if step.chunks or step.preempted:
            return 1
        left = min([request.left for request in step.decodes])
        return max(1, self.cache.most_repeats(step.decodes, left))

    def repeat(self, step: Step, times: int) -> None:
        """Let a step of decodes stand for `times` equal ones."""
        step.repeats = times
        for request in step.decodes:
            self.cache.grow(request, request.computed + times)

    def advance(self, step: Step) -> None:
        """Count what a step computes, as known when it is launched."""
        for request, _, tokens in step.chunks:
            request.computed += tokens
            self.cache.keep(request)
            if request.computed == request.total:
                request.generated += 1
                step.emitted.append(request)
        size = self.cache.block_tokens
        for request in step.decodes:
            before = request.computed
            request.computed += step.repeats
            request.generated += step.repeats
            if request.computed // size > before // size:
                self.cache.keep(request)
        step.emitted += step.decodes
        step.finished = [r for r in step.emitted if r.generated >= r.output_tokens]
        for request in step.finished:
            self.running.remove(request)

    def settle(self, step: Step) -> None:
        """Free the blocks of what finished."""
        for request in step.finished:
            self.cache.release(request)

    def _continue(self, step: Step) -> int:
        """Plan the running requests; return what is left of the budget."""
        budget, place, size = self.budget_tokens, 0, self.cache.block_tokens
        while place < len(self.running) and budget:
            request = self.running[place]
            upto = request.prompt_tokens + request.generated
            tokens = upto - request.computed
            if tokens > budget:
                tokens, upto = budget, request.computed + budget
            if upto > len(request.blocks) * size and not self._make_room(request, upto, step):
                break
            if tokens == 1 and request.generated:
                step.decodes.append(request)
            else:
                step.chunks.append((request, request.computed, tokens))
            budget -= tokens
            place += 1
        return budget

    def _make_room(self, request: Request, upto: int, step: Step) -> bool:
        """Give a running request room, at the cost of later ones; False if it gave way itself."""
        while not self.cache.grow(request, upto):
            victim = self.running.pop()
            self._put_back(victim)
            step.preempted.append(victim)
            if victim is request:
                return False
        return True

    def _put_back(self, victim: Request) -> None:
        victim.preemptions += 1
        self.cache.keep(victim)  # what is not taken from it meanwhile it will find again
        self.cache.release(victim)
        victim.computed = 0
        self.preemptions += 1
        self.waiting.appendleft(victim)

    def _admit(self, step: Step, budget: int) -> None:
        while self.waiting and budget and len(self.running) < self.max_running:
            request = self.waiting[0]
            hits = self.cache.lookup(request)
            hit_tokens = len(hits) * self.cache.block_tokens
            wanted = request.total - hit_tokens
            if wanted > budget and not self.chunked:
                return
            tokens = min(wanted, budget)
            if not self.cache.admit(request, hits, hit_tokens + tokens):
                return
            self._start(self.waiting.popleft(), hit_tokens)
            step.chunks.append((request, hit_tokens, tokens))
            budget -= tokens

    def _start(self, request: Request, hit_tokens: int) -> None:
        request.computed = hit_tokens
        if request.cached is None:
            request.cached = hit_tokens
            self.query_tokens += request.total
            self.hit_tokens += hit_tokens
        self.running.append(request)
