"""SGLang's scheduler: prefill before decode, or both in one step where mixing is enabled.

A prefill step takes waiting requests until the chunk is full or their estimated need exceeds the
memory; the last of them may be cut, and goes on before any other. Decodes stand still meanwhile
unless they are mixed in. When decodes lack memory, the ones that have generated least are
retracted and start again.
"""

from __future__ import annotations

from collections import deque

from engines.sim.sglang.radix import RadixCache
from engines.sim.step import Request, Step

FIRST_RATIO = 0.7
LEAST_RATIO = 0.7 * 0.14
DECAY_STEPS = 600
RETRACT_STEPS = 20
MOST_NEW_TOKENS = 4096
"""Constants of SGLang's admission estimate (its environment defaults in 0.5.23)."""


class SglangScheduler:
    """First come, first served.

    Args:
        cache: the KV memory.
        max_running: most requests that run at once.
        chunk_tokens: most prompt tokens of one step; None for whole prompts.
        max_prefill_tokens: most prompt tokens of one step over all requests.
        mixed: decodes join prefill steps.
        trusting: running requests that ignore the end of sequence are expected to use their whole
            limit (0.5.23); before, all were estimated by one ratio.
    """

    def __init__(
        self,
        cache: RadixCache,
        *,
        max_running: int,
        chunk_tokens: int | None,
        max_prefill_tokens: int = 16_384,
        mixed: bool = False,
        trusting: bool = True,
    ) -> None:
        self.cache = cache
        self.max_running = max_running
        self.chunk_tokens = chunk_tokens
        self.max_prefill_tokens = max_prefill_tokens
        self.mixed = mixed
        self.trusting = trusting
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.cut: Request | None = None
        self.full = False
        self.ratio = FIRST_RATIO
        self.query_tokens = 0
        self.hit_tokens = 0
        self.preemptions = 0

    def add(self, request: Request) -> None:
        """Queue a request."""
        self.waiting.append(request)

    def abort(self, request: Request) -> None:
        """Drop a request wherever it is."""
        if request in self.waiting:
            self.waiting.remove(request)
            return
        if request in self.running:
            self.running.remove(request)
        elif request is self.cut:
            self.cut = None
        else:
            return
        self.full = False
        self.cache.release(request)

    def plan(self) -> Step | None:
        """Return the next step, None when there is nothing to do."""
        step = Step()
        self._prefill(step)
        if not step.chunks:
            self._decode(step)
        elif self.mixed and self.cache.take(len(self.running)):
            step.decodes = list(self.running)
        return step if step.chunks or step.decodes else None

    def most_repeats(self, step: Step) -> int:
        """Return how often a step of decodes could run before anything else changes."""
        if step.chunks or step.preempted or (self.waiting and not self.full):
            return 1
        left = min([request.left for request in step.decodes])
        return max(1, min(left, 1 + self.cache.available_tokens // len(step.decodes)))

    def repeat(self, step: Step, times: int) -> None:
        """Let a step of decodes stand for `times` equal ones."""
        step.repeats = times
        self.cache.take((times - 1) * len(step.decodes))
        self._decay(times - 1)

    def advance(self, step: Step) -> None:
        """Count what a step computes, as known when it is launched."""
        for request in step.decodes:
            request.computed += step.repeats
            request.generated += step.repeats
        for request, _, tokens in step.chunks:
            request.computed += tokens
            if request.computed == request.total:
                request.generated += 1
                step.emitted.append(request)
                self.running.append(request)
        step.emitted += step.decodes
        step.finished = [r for r in step.emitted if r.generated >= r.output_tokens]
        for request in step.finished:
            self.running.remove(request)

    def settle(self, step: Step) -> None:
        """Put what was computed into the tree; free what finished."""
        for request, _, _ in step.chunks:
            if request.node is not None:  # it may have been retracted meanwhile
                self.cache.keep(request)
        for request in step.finished:
            self.full = False
            self.cache.keep(request)
            self.cache.release(request)

    def _prefill(self, step: Step) -> None:
        if self.cut is None and (self.full or not self.waiting):
            self.full = self.full and bool(self.running)
            return
        mixed = len(self.running) if self.mixed else 0
        room = min(self.chunk_tokens or self.max_prefill_tokens, self.max_prefill_tokens) - mixed
        if self.cut is not None:
            room -= self._go_on(self.cut, step, room)
        while self.waiting and room > 0 and self.cut is None:
            if len(self.running) + len(step.chunks) >= self.max_running:
                self.full = True
                return
            tokens = self._admit(self.waiting[0], step, room, mixed)
            if not tokens:
                self.full = bool(step.chunks or self.running)
                return
            room -= tokens

    def _go_on(self, request: Request, step: Step, room: int) -> int:
        """Plan the next chunk of the request that was cut; return its tokens."""
        tokens = min(request.total - request.computed, room)
        if tokens <= 0 or not self.cache.take(tokens):
            return room
        step.chunks.append((request, request.computed, tokens))
        if request.computed + tokens == request.total:
            self.cut = None
        return tokens

    def _admit(self, request: Request, step: Step, room: int, mixed: int) -> int:
        """Take a request into the step; return its tokens, 0 when memory lacks."""
        node, hit_tokens = self.cache.lookup(request)
        self.cache.admit(request, node, hit_tokens)
        free = self.cache.available_tokens - mixed - self._promised(step)
        wanted = request.total - hit_tokens
        tokens = min(wanted, room) if self.chunk_tokens else wanted
        if not self._fits(request, step, wanted, free) or not self.cache.take(tokens):
            request.computed = request.shared
            self.cache.release(request)
            request.computed = 0
            return 0
        self._start(self.waiting.popleft(), hit_tokens)
        step.chunks.append((request, hit_tokens, tokens))
        if tokens < wanted:
            self.cut = request
        return tokens

    def _fits(self, request: Request, step: Step, wanted: int, free: float) -> bool:
        """Whether memory should last for a request beside those taken so far."""
        if not self.running and not step.chunks:
            return wanted + 1 <= free
        if request.fixed_length and not self.cache.reuse:
            return self._outlasts(request, step, wanted)
        return wanted + 1 + self._limit(request) <= free

    def _outlasts(self, request: Request, step: Step, wanted: int) -> bool:
        """Without a prefix cache SGLang looks ahead: memory must suffice at each future end."""
        others = self.running + [chunk for chunk, _, _ in step.chunks]
        ends = sorted((r.limit_tokens - r.generated, r.total) for r in [request, *others])
        free = self.cache.available_tokens - wanted - 1
        for place, (left, held) in enumerate(ends):
            alive = len(ends) - place
            if free - left * alive <= alive:
                return False
            free += held
        return True

    def _start(self, request: Request, hit_tokens: int) -> None:
        request.computed = hit_tokens
        if request.cached is None:
            request.cached = hit_tokens
            self.query_tokens += request.total
            self.hit_tokens += hit_tokens

    def _promised(self, step: Step) -> float:
        """Tokens that the requests taken so far are expected to need still."""
        admitted = [request for request, _, _ in step.chunks]
        return sum([self._expected(request) for request in self.running + admitted])

    def _expected(self, request: Request) -> float:
        return self._limit(request) * (
            1.0 if self.trusting and request.fixed_length else self.ratio
        )

    def _limit(self, request: Request) -> int:
        return min(request.limit_tokens - request.generated, MOST_NEW_TOKENS)

    def _decode(self, step: Step) -> None:
        if not self.running:
            return
        if self.cache.available_tokens < len(self.running):
            self._retract(step)
        else:
            self._decay(1)
        if self.cache.take(len(self.running)):
            step.decodes = list(self.running)

    def _decay(self, steps: int) -> None:
        fall = (FIRST_RATIO - LEAST_RATIO) / DECAY_STEPS * steps
        self.ratio = max(LEAST_RATIO, self.ratio - fall)

    def _retract(self, step: Step) -> None:
        self.running.sort(key=lambda r: (r.generated, -r.prompt_tokens), reverse=True)
        while len(self.running) > 1:
            self._put_back(self.running.pop(), step)
            if self.cache.available_tokens >= len(self.running):
                break
        if self.cut is not None and self.cache.available_tokens < len(self.running):
            self._put_back(self.cut, step)
            self.cut = None
        generated = sum(r.generated + RETRACT_STEPS for r in self.running)
        self.ratio = min(1.0, generated / (sum(r.limit_tokens for r in self.running) + 1))

    def _put_back(self, victim: Request, step: Step) -> None:
        self.cache.release(victim)
        victim.computed = 0
        victim.preemptions += 1
        self.preemptions += 1
        self.full = False
        self.waiting.append(victim)
        step.preempted.append(victim)
