"""The time of one step: what the GPU reads and computes, plus what the engine adds.

A step reads the weights once and the KV of every sequence that decodes, and computes every token
of its prefill chunks. The parts add up rather than hide behind each other: that is how the
article's figures behave, and it leaves each part one number to fit.
"""

from __future__ import annotations

from dataclasses import dataclass

from engines.sim.profile import Overheads, Profile
from engines.sim.shapes import Shape
from engines.sim.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of each part of a step.

    Attributes:
        fixed_s: launch and weights.
        sequence_s: one sequence in the step.
        constrained_s: one sequence under a grammar, in addition.
        token_s: one token of a prefill chunk.
        pair_s: one (query, key) pair of a prefill chunk.
        kv_token_s: reading the KV of one token of a decoding sequence.
    """

    fixed_s: float
    sequence_s: float
    constrained_s: float
    token_s: float
    pair_s: float
    kv_token_s: float

    def seconds(self, step: Step) -> float:
        """Return how long a step takes."""
        sequences = len(step.decodes) + len(step.chunks)
        return (
            self.fixed_s
            + self.sequence_s * sequences
            + self.constrained_s * step.constrained
            + self.token_s * step.chunk_tokens
            + self.pair_s * step.pairs
            + self.kv_token_s * step.context_tokens
        )

    def growth_s(self, step: Step) -> float:
        """Return by how much the next step of the same decodes is longer."""
        return self.kv_token_s * len(step.decodes)


def cost_of(
    profile: Profile,
    overheads: Overheads,
    shape: Shape,
    *,
    quantization: str | None = None,
    kv_dtype: str = "auto",
    gpus: int = 1,
) -> Cost:
    """Return the cost of a model on a GPU under an engine.

    `gpus` split the model evenly; what they say to each other is not modelled.
    """
    fp8 = quantization == "fp8" or shape.stored == "fp8"
    flops_per_s = profile.flops_per_s * (overheads.fp8_speedup if fp8 else 1.0) * gpus
    bandwidth = profile.bandwidth_bytes_per_s * gpus
    return Cost(
        fixed_s=overheads.step_s + shape.read_bytes(quantization) / bandwidth,
        sequence_s=overheads.sequence_s,
        constrained_s=profile.constrained_s,
        token_s=shape.token_flops / flops_per_s,
        pair_s=shape.pair_flops / (profile.attention_flops_per_s * gpus),
        kv_token_s=shape.kv_token_bytes(kv_dtype) / bandwidth,
    )
