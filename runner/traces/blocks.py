"""Hash ids of a log as token blocks, so that prompts share the prefixes that they shared there."""

from __future__ import annotations

import math
import random
from collections.abc import Callable


class Blocks:
    """Blocks of one load: equal ids give equal tokens within it, and only there.

    Args:
        block_tokens: tokens that one id stands for.
        salt: tells loads apart.
        ids: draws so many token ids.
    """

    def __init__(
        self, block_tokens: int, salt: int, ids: Callable[[random.Random, int], list[int]]
    ) -> None:
        self._block_tokens = block_tokens
        self._salt = salt
        self._ids = ids
        self._nodes: dict[tuple[int, int], int] = {}

    def tokens(self, hash_ids: tuple[int, ...], length: int) -> list[int]:
        """Return a prompt of `length` tokens; its last block is cut.

        Raises:
            ValueError: so many ids are not so many tokens.
        """
        if len(hash_ids) != math.ceil(length / self._block_tokens):
            raise ValueError(
                f"{len(hash_ids)} hash ids are not {length} tokens in blocks of"
                f" {self._block_tokens}; set block_tokens"
            )
        return [token for number in hash_ids for token in self._block(number)][:length]

    def seen_tokens(self, hash_ids: tuple[int, ...], length: int) -> int:
        """Return how many leading tokens an earlier prompt had, and remember this one.

        A cache without end is assumed: what a real one evicts is not known here.
        """
        node, leading = 0, 0
        for number in hash_ids:
            place = (node, number)
            leading += place in self._nodes
            node = self._nodes.setdefault(place, len(self._nodes) + 1)
        return min(leading * self._block_tokens, length)

    def _block(self, number: int) -> list[int]:
        rng = random.Random(f"{self._salt}/{number}")  # noqa: S311 - prompts, not secrets
        return self._ids(rng, self._block_tokens)
