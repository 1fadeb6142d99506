"""Properties of both schedulers, whatever the requests, the memory and the moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.sim.cost import Cost
from engines.sim.engine import Engine, Scheduler
from engines.sim.offline import Timeline, closed_loop, open_loop
from engines.sim.sglang.radix import RadixCache
from engines.sim.sglang.scheduler import SglangScheduler
from engines.sim.source import Ask
from engines.sim.step import Step
from engines.sim.vllm.blocks import BlockCache
from engines.sim.vllm.scheduler import VllmScheduler

COST = Cost(
    fixed_s=0.01, sequence_s=1e-4, constrained_s=0.0, token_s=1e-4, pair_s=1e-8, kv_token_s=1e-6
)
CAPACITY = 512
Make = Callable[[], Scheduler]


def vllm(*, reuse: bool = True, budget: int = 64, running: int = 8) -> VllmScheduler:
    cache = BlockCache(CAPACITY // 16, 16, reuse=reuse)
    return VllmScheduler(cache, max_running=running, budget_tokens=budget)


def sglang(
    *,
    reuse: bool = True,
    chunk: int | None = 64,
    mixed: bool = False,
    running: int = 8,
    trusting: bool = True,
) -> SglangScheduler:
    cache = RadixCache(CAPACITY, reuse=reuse)
    return SglangScheduler(
        cache, max_running=running, chunk_tokens=chunk, mixed=mixed, trusting=trusting
    )


SCHEDULERS: dict[str, Make] = {
    "vllm": vllm,
    "vllm without prefix cache": lambda: vllm(reuse=False),
    "sglang": sglang,
    "sglang mixed": lambda: sglang(mixed=True),
    "sglang whole prompts": lambda: sglang(chunk=None),
    "sglang without prefix cache": lambda: sglang(reuse=False),
    "sglang by estimate": lambda: sglang(trusting=False),
    "sglang mixed by estimate": lambda: sglang(mixed=True, trusting=False),
}
schedulers = pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)

asks = st.lists(
    st.builds(
        Ask,
        prompt=st.one_of(
            st.integers(1, 300),
            st.lists(st.integers(0, 2), min_size=1, max_size=120),
        ),
        output_tokens=st.integers(1, 120),
        due_s=st.floats(0.0, 5.0),
    ),
    min_size=1,
    max_size=24,
)
thorough = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


class Watched(Engine):
    """An engine that checks, at every step, what must always hold."""

    budget: int | None = None

    def begin(self, horizon_s: float | None = None) -> list[float]:
        ends = super().begin(horizon_s)
        cache = self.scheduler.cache  # type: ignore[attr-defined]
        assert 0 <= cache.used_tokens <= cache.capacity_tokens
        if self.step is not None:
            self.check(self.step)
        return ends

    def check(self, step: Step) -> None:
        at_once = [request for request, _, _ in step.chunks] + step.decodes
        assert len(at_once) == len(set(map(id, at_once))), "one request twice in a step"
        assert len(self.scheduler.running) <= self.scheduler.max_running  # type: ignore[attr-defined]
        if isinstance(self.scheduler, VllmScheduler):
            assert step.chunk_tokens + len(step.decodes) <= self.scheduler.budget_tokens


def is_idle(scheduler: Scheduler) -> bool:
    cache = scheduler.cache  # type: ignore[attr-defined]
    return not scheduler.running and not scheduler.waiting and cache.used_tokens == 0


def times(lines: tuple[Timeline, ...]) -> list[list[float]]:
    return [line.token_s for line in lines]


@schedulers
@thorough
@given(asks=asks)
def test_every_request_gets_all_its_tokens_in_order_and_all_memory_comes_back(
    make: Make, asks: list[Ask]
) -> None:
    engine = Watched(make(), COST)
    lines = open_loop(engine, asks)
    assert [len(line.token_s) for line in lines] == [ask.output_tokens for ask in asks]
    assert all(line.token_s == sorted(line.token_s) for line in lines)
    assert all(line.token_s[0] > line.sent_s for line in lines)
    assert is_idle(engine.scheduler)
    assert engine.scheduler.cache.reset()  # type: ignore[attr-defined]


@schedulers
@thorough
@given(asks=asks, concurrency=st.integers(1, 12))
def test_a_closed_loop_never_has_more_requests_under_way_than_asked(
    make: Make, asks: list[Ask], concurrency: int
) -> None:
    lines = closed_loop(Watched(make(), COST), asks, concurrency=concurrency)
    assert len(lines) == len(asks)
    edges = sorted(
        [(line.sent_s, 1) for line in lines] + [(line.last_s, -1) for line in lines],
    )
    under_way = most = 0
    for _, change in edges:
        under_way += change
        most = max(most, under_way)
    assert most <= concurrency


@schedulers
@thorough
@given(asks=asks)
def test_jumping_over_equal_steps_changes_nothing(make: Make, asks: list[Ask]) -> None:
    class Stepwise(Engine):
        def begin(self, horizon_s: float | None = None) -> list[float]:
            return super().begin(None)

    jumped = times(open_loop(Engine(make(), COST), asks))
    walked = times(open_loop(Stepwise(make(), COST), asks))
    for one, other in zip(jumped, walked, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


@schedulers
@thorough
@given(lengths=st.lists(st.integers(1, 60), min_size=2, max_size=20))
def test_requests_start_in_the_order_they_came_while_memory_is_enough(
    make: Make, lengths: list[int]
) -> None:
    engine = Engine(make(), COST)
    waves = [
        Ask(prompt=length, output_tokens=1, due_s=place * 1e-6)
        for place, length in enumerate(lengths)
    ]
    first = [line.token_s[0] for line in open_loop(engine, waves)]
    assert engine.scheduler.preemptions == 0
    assert first == sorted(first)


@pytest.mark.parametrize("make", [vllm, sglang])
def test_of_a_burst_the_first_to_arrive_runs_alone_and_the_rest_two_steps_later(make: Make) -> None:
    burst = [Ask(prompt=8, output_tokens=4)] * 4
    lines = closed_loop(Engine(make(), COST), burst, concurrency=4, apart_s=1e-4)
    first, *rest = [line.token_s[0] for line in lines]
    assert len(set(rest)) == 1
    assert rest[0] > lines[0].token_s[1] > first
    at_once = closed_loop(Engine(make(), COST), burst, concurrency=4)
    assert len({line.token_s[0] for line in at_once}) == 1


def test_vllm_decodes_while_a_long_prompt_comes_in() -> None:
    long, short = 256, Ask(prompt=16, output_tokens=40)
    lines = open_loop(Engine(vllm(), COST), [short, Ask(prompt=long, output_tokens=2, due_s=0.05)])
    victim, injected = lines
    between = [t for t in victim.token_s if injected.sent_s < t < injected.token_s[0]]
    assert len(between) >= 4


def test_sglang_stops_decoding_for_a_long_prompt_unless_it_mixes() -> None:
    asks = [
        Ask(prompt=16, output_tokens=40),
        Ask(prompt=256, output_tokens=2, due_s=0.05),
    ]
    alone = max(open_loop(Engine(sglang(), COST), asks)[0].itl_s)
    mixed = max(open_loop(Engine(sglang(mixed=True), COST), asks)[0].itl_s)
    assert alone > 2.5 * mixed


@pytest.mark.parametrize("make", [vllm, sglang])
def test_a_prompt_that_came_before_is_found_in_the_cache(make: Make) -> None:
    prompt = list(range(200))
    asks = [Ask(prompt=prompt, output_tokens=4, due_s=due_s) for due_s in (0.0, 10.0)]
    first, second = open_loop(Engine(make(), COST), asks)
    assert first.cached_tokens == 0
    assert second.cached_tokens in (192, 199)  # whole blocks of 16, or all but the last token
    assert second.ttft_s < first.ttft_s / 2


@pytest.mark.parametrize("make", [lambda: vllm(reuse=False), lambda: sglang(reuse=False)])
def test_nothing_is_found_when_the_prefix_cache_is_off(make: Make) -> None:
    asks = [Ask(prompt=list(range(200)), output_tokens=4, due_s=due_s) for due_s in (0.0, 10.0)]
    assert [line.cached_tokens for line in open_loop(Engine(make(), COST), asks)] == [0, 0]


def test_vllm_puts_the_latest_request_back_when_blocks_run_out() -> None:
    asks = [Ask(prompt=100, output_tokens=200, due_s=place * 1e-3) for place in range(4)]
    engine = Watched(vllm(), COST)
    lines = open_loop(engine, asks)
    assert engine.scheduler.preemptions > 0
    assert lines[0].preemptions == 0


def test_sglang_admits_only_what_it_expects_to_finish_where_lengths_are_fixed() -> None:
    asks = [Ask(prompt=100, output_tokens=200, due_s=place * 1e-3) for place in range(4)]
    engine = Watched(sglang(), COST)
    open_loop(engine, asks)
    assert engine.scheduler.preemptions == 0


def test_sglang_by_estimate_admits_too_many_and_retracts() -> None:
    asks = [Ask(prompt=100, output_tokens=200, due_s=place * 1e-3) for place in range(4)]
    engine = Watched(sglang(trusting=False), COST)
    open_loop(engine, asks)
    assert engine.scheduler.preemptions > 0
