"""The body of one vLLM completion over token ids."""

from __future__ import annotations

from collections.abc import Sequence

from engines import Sampling


def completion(
    model: str, tokens: Sequence[int], output_tokens: int, sampling: Sampling
) -> dict[str, object]:
    """Return a streaming completion of exactly `output_tokens` tokens.

    `ignore_eos` alone makes the length exact; `min_tokens` is left out because it bans the end
    token from every step, which changes the sampling.
    """
    body: dict[str, object] = {
        "model": model,
        "prompt": list(tokens),
        "max_tokens": output_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "repetition_penalty": sampling.repetition_penalty,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    return body
