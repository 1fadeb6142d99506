"""A request on its way through the engine, and one step of the engine."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from typing import Any

PRIVATE_ID = 1 << 20
"""Above every vocabulary: a private prompt is this plus its request's number, over and over."""


class Request:
    """One request as the scheduler sees it. Mutable: the scheduler moves it along.

    Attributes:
        number: order of arrival, from 0.
        tokens: the prompt, then what was generated (filled in as blocks need it).
        prompt_tokens: length of the prompt.
        private: its prompt is a length alone: it shares nothing with any other.
        output_tokens: length at which it ends.
        limit_tokens: the output length that the client allowed, for admission by estimate.
        fixed_length: it ignores the end-of-sequence token.
        constrained: its output follows a grammar.
        computed: tokens whose KV is in memory.
        generated: tokens given out.
        cached: prompt tokens found in the prefix cache at its first admission.
        blocks: its KV blocks (vLLM).
        keys: hash of each full block's tokens and all before it (vLLM).
        node: the radix node it holds (SGLang).
        shared: what of it is findable by others: full blocks (vLLM), tokens in the tree (SGLang).
        preemptions: times it was put back.
        owner: whatever the caller ties to it.
    """

    __slots__ = (
        "blocks",
        "cached",
        "computed",
        "constrained",
        "fixed_length",
        "generated",
        "keys",
        "limit_tokens",
        "node",
        "number",
        "output_tokens",
        "owner",
        "preemptions",
        "private",
        "prompt_tokens",
        "seed",
        "shared",
        "tokens",
    )

    def __init__(
        self,
        number: int,
        prompt: Sequence[int] | int,
        output_tokens: int,
        *,
        limit_tokens: int | None = None,
        fixed_length: bool = True,
        constrained: bool = False,
        owner: Any = None,
    ) -> None:
        self.number = number
        self.private = isinstance(prompt, int)
        self.tokens = array("I", () if isinstance(prompt, int) else prompt)
        self.prompt_tokens = prompt if isinstance(prompt, int) else len(self.tokens)
        self.output_tokens = output_tokens
        self.limit_tokens = limit_tokens or output_tokens
        self.fixed_length = fixed_length
        self.constrained = constrained
        self.owner = owner
        self.seed = zlib.crc32(self.tokens)
        self.computed = 0
        self.generated = 0
        self.cached: int | None = None
        self.preemptions = 0
        self.blocks: list[int] = []
        self.keys: list[int] = []
        self.node: Any = None
        self.shared = 0

    @property
    def total(self) -> int:
        """Tokens it has so far: prompt and generated."""
        return self.prompt_tokens + self.generated

    @property
    def is_alone(self) -> bool:
        """Whether nobody will ever look its tokens up: private, and never put back."""
        return self.private and not self.preemptions

    @property
    def left(self) -> int:
        """Output tokens it will still generate."""
        return self.output_tokens - self.generated

    def filled(self, upto: int) -> array[int]:
        """Return its first `upto` tokens, generated ones written in where they are missing."""
        known = len(self.tokens)
        if self.private and not known:
            self.tokens.extend([PRIVATE_ID + self.number] * self.prompt_tokens)
            known = self.prompt_tokens
        if known < upto:
            first = known - self.prompt_tokens
            self.tokens.extend(self.output_ids(first, upto - known))
        return self.tokens[:upto]

    def output_ids(self, first: int, count: int) -> list[int]:
        """Return `count` generated token ids from the `first` on: always the same for a prompt."""
        return [100 + (self.seed + 7919 * place) % 1900 for place in range(first, first + count)]


class Step:
    """One step of the engine: what it computes, then (once launched) what comes of it.

    Attributes:
        chunks: (request, first position, tokens) of each prefill chunk.
        decodes: requests that get one token.
        preempted: requests put back for want of KV memory while planning.
        repeats: how many equal steps this one stands for (decodes only).
        emitted: requests that get a token, known once it is launched.
        finished: requests that end, known once it is launched.
    """

    __slots__ = ("chunks", "decodes", "emitted", "finished", "preempted", "repeats")

    def __init__(self) -> None:
        self.chunks: list[tuple[Request, int, int]] = []
        self.decodes: list[Request] = []
        self.preempted: list[Request] = []
        self.repeats = 1
        self.emitted: list[Request] = []
        self.finished: list[Request] = []

    def drop(self, request: Request) -> int:
        """Leave a request out; return the tokens that were planned for it."""
        planned = sum([tokens for chunk, _, tokens in self.chunks if chunk is request])
        self.chunks = [chunk for chunk in self.chunks if chunk[0] is not request]
        if request in self.decodes:
            self.decodes.remove(request)
            planned += 1
        return planned

    @property
    def chunk_tokens(self) -> int:
        """Prompt tokens computed."""
        return sum([tokens for _, _, tokens in self.chunks])

    @property
    def pairs(self) -> float:
        """(query, key) pairs of its chunks: each token sees all tokens before it and itself."""
        return sum([tokens * (first + (tokens + 1) / 2) for _, first, tokens in self.chunks])

    @property
    def context_tokens(self) -> int:
        """Tokens whose KV its decodes read."""
        return sum([request.computed for request in self.decodes])

    @property
    def constrained(self) -> int:
        """Sequences whose next token a grammar limits."""
        return sum([request.constrained for request in self.decodes])
