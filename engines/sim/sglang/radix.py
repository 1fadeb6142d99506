"""SGLang's KV cache: a radix tree over tokens (page of 1), least recently used leaves go first.

What a request computed becomes part of the tree after each prefill chunk and at its end; nodes on
the path of a running request are locked. Without the prefix cache nothing enters the tree.
"""

from __future__ import annotations

import heapq
from array import array

from engines.sim.step import Request


class Node:
    """A run of tokens below its parent's."""

    __slots__ = ("children", "locks", "parent", "tokens", "used")

    def __init__(self, parent: Node | None, tokens: array[int]) -> None:
        self.parent = parent
        self.tokens = tokens
        self.children: dict[int, Node] = {}
        self.locks = 0
        self.used = 0


class RadixCache:
    """KV memory by the token, part of it a tree that requests share.

    Args:
        capacity_tokens: tokens it can hold.
        reuse: what is computed can be found again (the prefix cache is on).
    """

    def __init__(self, capacity_tokens: int, *, reuse: bool = True) -> None:
        self.capacity_tokens = capacity_tokens
        self.reuse = reuse
        self._clear()

    @property
    def available_tokens(self) -> int:
        """Tokens free now or held by nobody in the tree."""
        return self._free + self._evictable

    @property
    def used_tokens(self) -> int:
        """Tokens that a running request holds."""
        return self.capacity_tokens - self.available_tokens

    def lookup(self, request: Request) -> tuple[Node, int]:
        """Return the node that ends the longest cached prefix, and that prefix's tokens.

        Never the whole request: one token must be computed to get the next.
        """
        if not self.reuse:
            return self._root, 0
        return self._walk(request.filled(request.total - 1))

    def admit(self, request: Request, node: Node, tokens: int) -> None:
        """Let a request hold its cached prefix."""
        self._lock(node)
        request.node, request.shared = node, tokens

    def take(self, tokens: int) -> bool:
        """Take room for tokens, unused leaves giving way; False, and nothing changes, if short."""
        if tokens > self._free + self._evictable:
            return False
        if tokens > self._free:
            self._evict(tokens - self._free)
        self._free -= tokens
        return True

    def keep(self, request: Request) -> None:
        """Put what a request has computed into the tree and hold it there."""
        if not self.reuse or request.computed == request.shared:
            return
        node, new = self._insert(request.filled(request.computed))
        self._free += request.computed - request.shared - new
        self._lock(node)
        self._unlock(request.node)
        request.node, request.shared = node, request.computed

    def release(self, request: Request) -> None:
        """Let go of what a request holds; what is not in the tree is free."""
        self._free += request.computed - request.shared
        self._unlock(request.node)
        request.node, request.shared = None, 0

    def reset(self) -> bool:
        """Forget everything; False, and nothing changes, while someone holds tokens."""
        if self.used_tokens:
            return False
        self._clear()
        return True

    def _clear(self) -> None:
        self._root = Node(None, array("I"))
        self._root.locks = 1
        self._free = self.capacity_tokens
        self._evictable = 0
        self._clock = 0
        self._leaves: set[Node] = set()

    def _walk(self, tokens: array[int]) -> tuple[Node, int]:
        self._clock += 1
        node, done = self._root, 0
        while done < len(tokens):
            child = node.children.get(tokens[done])
            if child is None:
                break
            length = _common(child.tokens, tokens, done)
            if length < len(child.tokens):
                child = self._split(child, length)
            child.used = self._clock
            node, done = child, done + length
        return node, done

    def _insert(self, tokens: array[int]) -> tuple[Node, int]:
        node, done = self._walk(tokens)
        new = len(tokens) - done
        if new:
            child = Node(node, tokens[done:])
            child.used = self._clock
            node.children[child.tokens[0]] = child
            self._leaves.discard(node)
            self._leaves.add(child)
            self._evictable += new
            node = child
        return node, new

    def _split(self, node: Node, length: int) -> Node:
        """Cut a node after `length` tokens; return the new upper part."""
        parent = node.parent
        upper = Node(parent, node.tokens[:length])
        upper.locks, upper.used = node.locks, node.used
        node.tokens = node.tokens[length:]
        node.parent = upper
        upper.children[node.tokens[0]] = node
        if parent is not None:
            parent.children[upper.tokens[0]] = upper
        return upper

    def _lock(self, node: Node | None) -> None:
        while node is not None and node is not self._root:
            if not node.locks:
                self._evictable -= len(node.tokens)
            node.locks += 1
            node = node.parent

    def _unlock(self, node: Node | None) -> None:
        while node is not None and node is not self._root:
            node.locks -= 1
            if not node.locks:
                self._evictable += len(node.tokens)
            node = node.parent

    def _evict(self, tokens: int) -> None:
        """Drop unheld leaves, the least recently used first, until `tokens` more are free."""
        heap = [(leaf.used, id(leaf), leaf) for leaf in self._leaves if not leaf.locks]
        heapq.heapify(heap)
        while tokens > 0 and heap:
            _, _, leaf = heapq.heappop(heap)
            tokens -= len(leaf.tokens)
            parent = self._drop(leaf)
            if parent is not self._root and not parent.children:
                self._leaves.add(parent)
                if not parent.locks:
                    heapq.heappush(heap, (parent.used, id(parent), parent))

    def _drop(self, leaf: Node) -> Node:
        parent = leaf.parent or self._root
        del parent.children[leaf.tokens[0]]
        self._leaves.discard(leaf)
        self._evictable -= len(leaf.tokens)
        self._free += len(leaf.tokens)
        return parent


def _common(run: array[int], tokens: array[int], start: int) -> int:
    """Return how many tokens of `run` stand in `tokens` from `start` on."""
    most = min(len(run), len(tokens) - start)
    if run[:most] == tokens[start : start + most]:
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if run[low:middle] == tokens[start + low : start + middle]:
            low = middle
        else:
            high = middle
    return low
