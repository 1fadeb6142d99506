"""vLLM's KV cache: equal blocks, shared by the hash of their tokens and all before them, LRU.

A block that nobody holds stays findable until it is needed for something else; the one that was
free longest goes first.
"""

from __future__ import annotations

from collections import OrderedDict

from engines.sim.step import Request


class BlockCache:
    """Blocks of KV with reference counts, a free queue and an index of full blocks.

    Args:
        blocks: number of blocks.
        block_tokens: tokens of a block.
        reuse: full blocks can be found again (the prefix cache is on).
    """

    def __init__(self, blocks: int, block_tokens: int, *, reuse: bool = True) -> None:
        self.block_tokens = block_tokens
        self.reuse = reuse
        self._blocks = blocks
        self._holders: list[int] = []  # of the blocks used so far; the others come first
        self._keys: list[int | None] = []
        self._found: dict[int, int] = {}
        self._freed: OrderedDict[int, None] = OrderedDict()

    @property
    def capacity_tokens(self) -> int:
        """Tokens it can hold."""
        return self._blocks * self.block_tokens

    @property
    def available_tokens(self) -> int:
        """Tokens of blocks that nobody holds."""
        return self._free * self.block_tokens

    @property
    def used_tokens(self) -> int:
        """Tokens of blocks that someone holds."""
        return self.capacity_tokens - self.available_tokens

    def lookup(self, request: Request) -> list[int]:
        """Return the blocks that hold the longest cached prefix, never the whole request."""
        if not self.reuse or request.is_alone:
            return []
        hits: list[int] = []
        for key in self._request_keys(request, (request.total - 1) // self.block_tokens):
            block = self._found.get(key)
            if block is None:
                break
            hits.append(block)
        return hits

    def admit(self, request: Request, hits: list[int], tokens: int) -> bool:
        """Give a request its cached blocks and room for `tokens` in all.

        False, and nothing changes, when the whole request so far would not fit: vLLM admits
        nothing that could not finish its prompt.
        """
        idle = sum(1 for block in hits if not self._holders[block])
        need = self._blocks_of(request.total) - len(hits)
        if need > self._free - idle:
            return False
        for block in hits:
            if not self._holders[block]:
                del self._freed[block]
            self._holders[block] += 1
        request.blocks = list(hits)
        request.shared = len(hits)
        return self.grow(request, tokens)

    def grow(self, request: Request, tokens: int) -> bool:
        """Give a request room for `tokens` in all; False, and nothing changes, when it lacks."""
        need = self._blocks_of(tokens) - len(request.blocks)
        if need > self._free:
            return False
        if need > 0:
            request.blocks += [self._take() for _ in range(need)]
        return True

    def keep(self, request: Request) -> None:
        """Make the full blocks of what is computed findable."""
        if not self.reuse or request.is_alone:
            return
        full = request.computed // self.block_tokens
        keys = self._request_keys(request, full)
        for place in range(request.shared, full):
            block = request.blocks[place]
            self._keys[block] = keys[place]
            self._found.setdefault(keys[place], block)
        request.shared = full

    def release(self, request: Request) -> None:
        """Let go of a request's blocks, its last block first to be used again."""
        for block in reversed(request.blocks):
            self._holders[block] -= 1
            if not self._holders[block]:
                self._freed[block] = None
        request.blocks = []
        request.shared = 0

    def most_repeats(self, requests: list[Request], limit: int) -> int:
        """Return how many tokens, up to `limit`, each of these requests can still grow by."""
        low, high = 0, limit
        if self._need(requests, limit) <= self._free:
            return limit
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._need(requests, middle) <= self._free
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def reset(self) -> bool:
        """Forget everything; False, and nothing changes, while someone holds a block."""
        if self._free < self._blocks:
            return False
        self._found.clear()
        self._keys = [None] * len(self._keys)
        return True

    @property
    def _free(self) -> int:
        """Blocks that nobody holds."""
        return len(self._freed) + self._blocks - len(self._holders)

    def _need(self, requests: list[Request], tokens: int) -> int:
        """Return the blocks that requests lack to grow by so many tokens each."""
        size, more = self.block_tokens, tokens + self.block_tokens - 1
        return sum([max(0, (r.computed + more) // size - len(r.blocks)) for r in requests])

    def _blocks_of(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def _take(self) -> int:
        if len(self._holders) < self._blocks:
            self._holders.append(1)
            self._keys.append(None)
            return len(self._holders) - 1
        block, _ = self._freed.popitem(last=False)
        key = self._keys[block]
        if key is not None and self._found.get(key) == block:
            del self._found[key]
        self._keys[block] = None
        self._holders[block] = 1
        return block

    def _request_keys(self, request: Request, blocks: int) -> list[int]:
        keys, size = request.keys, self.block_tokens
        if len(keys) < blocks:
            tokens = request.filled(blocks * size)
            for first in range(len(keys) * size, blocks * size, size):
                parent = keys[-1] if keys else 0
                keys.append(hash((parent, tokens[first : first + size].tobytes())))
        return keys[:blocks]
