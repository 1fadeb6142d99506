"""How much KV an engine makes of a GPU's memory: the arithmetic of each, and what boots change.

vLLM takes a fraction of all memory and subtracts what its profiling run used, which differs from
boot to boot and is larger while it compiles. SGLang takes a fraction of what was free before it
loaded and subtracts the weights: the same at every boot.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from engines.sim.profile import Overheads, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Where the memory of one GPU goes.

    Attributes:
        weights_bytes: the weights.
        kv_bytes: what is left for KV; may be negative.
        token_bytes: KV of one token.
        free_bytes: free before anything is loaded.
    """

    weights_bytes: int
    kv_bytes: int
    token_bytes: int
    free_bytes: int

    @property
    def kv_tokens(self) -> int:
        """Tokens of KV that fit; negative where the weights alone are too large."""
        return self.kv_bytes // self.token_bytes


def vllm_kv_bytes(
    profile: Profile,
    overheads: Overheads,
    *,
    fraction: float,
    weights_bytes: int,
    chunk_tokens: int,
    width: int,
    cold: bool,
    rng: random.Random,
) -> int:
    """Return what vLLM leaves for KV at one boot.

    Its profiling run holds the activations of one whole chunk, `width` being the MLP's. What else
    it finds used differs between boots by whole segments of the allocator.
    """
    drawn, step = rng.gauss(0.0, overheads.kv_sd_bytes), overheads.kv_step_bytes
    drawn = round(drawn / step) * step if step else drawn
    drawn -= overheads.cold_bytes if cold else 0.0
    used = overheads.reserve_bytes + overheads.width_bytes * width * chunk_tokens
    return int(profile.memory_bytes * fraction - weights_bytes - used + drawn)


def sglang_kv_bytes(
    profile: Profile, overheads: Overheads, *, fraction: float, weights_bytes: int
) -> int:
    """Return what SGLang leaves for KV, at every boot."""
    free = profile.memory_bytes - profile.context_bytes
    return int(free * fraction - weights_bytes - overheads.reserve_bytes)
