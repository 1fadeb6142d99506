"""One life of a simulated engine: what it was asked, what its boot made of it, what it counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from engines.sim import profile as profiles
from engines.sim.cost import cost_of
from engines.sim.engine import Engine, Scheduler
from engines.sim.memory import Memory, sglang_kv_bytes, vllm_kv_bytes
from engines.sim.options import Simulate
from engines.sim.pace import pace_of, rng_of
from engines.sim.profile import Overheads, Profile
from engines.sim.setup import Setup
from engines.sim.sglang.radix import RadixCache
from engines.sim.sglang.scheduler import SglangScheduler
from engines.sim.shapes import Shape
from engines.sim.vllm.blocks import BlockCache
from engines.sim.vllm.scheduler import VllmScheduler

ITERATION_BOUNDS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(slots=True, kw_only=True)
class Totals:
    """Running totals since the start; `late_s` is how late the latest step of all ended."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    succeeded: int = 0
    aborted: int = 0
    steps: int = 0
    iteration_tokens: int = 0
    iterations: list[int] = field(default_factory=lambda: [0] * (len(ITERATION_BOUNDS) + 1))
    late_s: float = 0.0

    @property
    def lateness(self) -> tuple[str, ...]:
        """Prometheus lines that say how far the simulation fell behind its own clock."""
        name = "simulated_engine_late_seconds_max"
        return (f"# TYPE {name} gauge", f"{name} {self.late_s}")


@dataclass(slots=True, kw_only=True)
class Twin:
    """A simulated engine, ready to run.

    Attributes:
        setup: what was asked.
        simulate: how it is simulated.
        profile: the GPU.
        overheads: the engine's own part on it.
        shape: the model.
        memory: where the memory went.
        kv_tokens: KV capacity of this boot.
        max_running: most requests at once.
        cold: the compile cache was empty.
        engine: the clock and scheduler.
        cache: the KV cache.
        totals: what it counted.
    """

    setup: Setup
    simulate: Simulate
    profile: Profile
    overheads: Overheads
    shape: Shape
    memory: Memory
    kv_tokens: int
    max_running: int
    cold: bool
    engine: Engine
    cache: BlockCache | RadixCache
    totals: Totals = field(default_factory=Totals)

    @property
    def scheduler(self) -> Scheduler:
        """The engine's scheduler."""
        return self.engine.scheduler

    @property
    def used_ratio(self) -> float:
        """Share of the KV cache in use."""
        return self.cache.used_tokens / self.cache.capacity_tokens


def memory_of(setup: Setup, simulate: Simulate, profile: Profile, shape: Shape) -> Memory:
    """Return where the memory goes at this boot."""
    overheads = profile.engines[setup.engine]
    weights_bytes = shape.weights_bytes(setup.quantization) // setup.gpus
    if setup.kv_bytes is not None:
        kv_bytes = setup.kv_bytes
    elif setup.engine == "vllm":
        kv_bytes = vllm_kv_bytes(
            profile,
            overheads,
            fraction=setup.fraction,
            weights_bytes=weights_bytes,
            chunk_tokens=setup.chunk_tokens or setup.context_tokens,
            width=shape.intermediate // setup.gpus,
            cold=simulate.is_cold,
            rng=rng_of(simulate, "kv"),
        )
    else:
        kv_bytes = sglang_kv_bytes(
            profile, overheads, fraction=setup.fraction, weights_bytes=weights_bytes
        )
    return Memory(
        weights_bytes=weights_bytes,
        kv_bytes=kv_bytes,
        token_bytes=shape.kv_token_bytes(setup.kv_dtype) // setup.gpus,
        free_bytes=profile.memory_bytes - profile.context_bytes,
    )


def capacity_tokens(setup: Setup, simulate: Simulate, memory: Memory) -> int:
    """Return the KV tokens of this boot, in whole blocks; negative where nothing is left."""
    tokens = memory.kv_tokens
    if simulate.kv_tokens:
        tokens = simulate.kv_tokens[min(simulate.boot or 0, len(simulate.kv_tokens) - 1)]
    elif setup.kv_tokens is not None:
        tokens = setup.kv_tokens if setup.engine == "vllm" else min(setup.kv_tokens, tokens)
    return tokens // setup.block_tokens * setup.block_tokens


def twin_of(setup: Setup, simulate: Simulate, profile: Profile, shape: Shape) -> Twin:
    """Boot a simulated engine."""
    overheads = profile.engines[setup.engine]
    memory = memory_of(setup, simulate, profile, shape)
    kv_tokens = capacity_tokens(setup, simulate, memory)
    max_running = setup.max_running or _default_running(setup, kv_tokens)
    cache, scheduler = _scheduler(setup, simulate, kv_tokens, max_running)
    cost = cost_of(
        profile,
        overheads,
        shape,
        quantization=setup.quantization,
        kv_dtype=setup.kv_dtype,
        gpus=setup.gpus,
    )
    return Twin(
        setup=setup,
        simulate=simulate,
        profile=profile,
        overheads=overheads,
        shape=shape,
        memory=memory,
        kv_tokens=kv_tokens,
        max_running=max_running,
        cold=simulate.is_cold,
        engine=Engine(
            scheduler,
            cost,
            pace=pace_of(simulate),
            noise_ratio=profile.noise_ratio,
            ahead=setup.ahead,
            rng=rng_of(simulate, "steps"),
        ),
        cache=cache,
    )


def default_chunk_tokens(engine: str, memory_bytes: int) -> int:
    """Return the chunk an engine chooses by the GPU's memory (vLLM 0.28+, SGLang 0.5.23)."""
    gib = memory_bytes / profiles.GIB
    if engine == "vllm":
        return 16_384 if gib >= 160 else 8192 if gib >= 70 else 2048
    return 16_384 if gib >= 160 else 8192 if gib >= 60 else 4096 if gib >= 20 else 2048


def _default_running(setup: Setup, kv_tokens: int) -> int:
    """SGLang's own limit: by capacity over context, never more than half the capacity."""
    wanted = min(max(kv_tokens * 512 // setup.context_tokens, 2048), 4096)
    return max(1, min(wanted, kv_tokens // 2))


def _scheduler(
    setup: Setup, simulate: Simulate, kv_tokens: int, max_running: int
) -> tuple[BlockCache | RadixCache, Scheduler]:
    reuse = setup.prefix_cache and not simulate.lost_prefix_cache
    if setup.engine == "vllm":
        blocks = BlockCache(kv_tokens // setup.block_tokens, setup.block_tokens, reuse=reuse)
        return blocks, VllmScheduler(
            blocks,
            max_running=max_running,
            budget_tokens=setup.chunk_tokens or setup.context_tokens,
            chunked=setup.mixed,
        )
    tree = RadixCache(kv_tokens, reuse=reuse)
    return tree, SglangScheduler(
        tree,
        max_running=max_running,
        chunk_tokens=setup.chunk_tokens,
        max_prefill_tokens=setup.given.get("max_prefill_tokens") or 16_384,
        mixed=setup.mixed,
        trusting=setup.release >= (0, 5, 23),
    )
