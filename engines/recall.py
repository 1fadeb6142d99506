"""What lines did before, so that their like need not be looked at again.

A log is made of few kinds of lines. A line that adds no fact only moves the reader from one state
to another; the same line in the same state does the same again. And two lines are of one kind when
they differ only in digits and the letters of hexadecimal numbers: a kind that no line with a
literal that matters can belong to does nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from functools import cache
from typing import Final

MOST: Final = 8192
"""Lines and states remembered at most; of lines and kinds together no more than `MOST_BYTES`."""
MOST_BYTES: Final = 4 << 20
LONGEST: Final = 8192
TELLING: Final = 5
"""Bytes that must be left of a literal for it to be looked for in kinds; others in the line."""

VARIES: Final = b"0123456789abcdef"


class Recall:
    """Remembers a bounded number of lines and kinds; when it is full, take a new one.

    Args:
        literals: what a line must bear to matter.

    Attributes:
        kinds: lines without what `VARIES`, that do nothing where they stand by themselves.
        after: number of the state that a line led to, by the number before and the line.
        states: states by their numbers.
        quiet: whether the next line can be read by itself, by their numbers.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        words = [literal.encode() for literal in literals]
        self._marks = one_of({_kind(word) for word in words if len(_kind(word)) >= TELLING})
        self._short = one_of({word for word in words if len(_kind(word)) < TELLING})
        self._numbers: dict[Hashable, int] = {}
        self._bytes = 0
        self.kinds: set[bytes] = set()
        self.after: dict[tuple[int, bytes], int] = {}
        self.states: list[Hashable] = []
        self.quiet: list[bool] = []

    @property
    def full(self) -> bool:
        """Whether no more should be remembered."""
        return self._bytes >= MOST_BYTES or len(self.after) + len(self.states) >= MOST

    def pass_over(self, line: bytes) -> None:
        """Remember that no line of this kind does anything."""
        if len(line) <= LONGEST and not self.full:
            self.kinds.add(_kind(line))
            self._bytes += len(line)

    def number(self, state: Hashable, *, quiet: bool) -> int:
        """Return a number for a state, the same for an equal one.

        `quiet` tells whether the next line can be read by itself there.
        """
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states)
            self.states.append(state)
            self.quiet.append(quiet)
        return number

    def add(self, line: bytes, before: int, after: int, *, alone: bool) -> None:
        """Remember what a line without new facts did; `alone`: it stood by itself."""
        if len(line) > LONGEST:
            return
        self._bytes += len(line)
        kind = _kind(line)
        if alone and before == after and not self._may_matter(line, kind):
            self.kinds.add(kind)
        else:
            self.after[before, line] = after

    def _may_matter(self, line: bytes, kind: bytes) -> bool:
        return bool(self._marks.search(kind) or self._short.search(line))


@cache
def _one_of(words: frozenset[bytes]) -> re.Pattern[bytes]:
    return re.compile(_alternatives(sorted(words)))


def one_of(words: Iterable[bytes]) -> re.Pattern[bytes]:
    """Return a pattern that finds any of the words, with what they share spelled once."""
    return _one_of(frozenset(words))


def _alternatives(words: Iterable[bytes]) -> bytes:
    firsts: dict[bytes, list[bytes]] = {}
    for word in words:
        firsts.setdefault(word[:1], []).append(word[1:])
    if b"" in firsts:
        return b""
    parts = [re.escape(first) + _alternatives(rests) for first, rests in firsts.items()]
    return parts[0] if len(parts) == 1 else b"(?:" + b"|".join(parts) + b")"


def _kind(line: bytes) -> bytes:
    return line.translate(None, VARIES)
