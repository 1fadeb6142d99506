"""Later turns of sessions: each waits for the answer before it and a think time. Pure."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Final

from runner.load.feed import Errand

_REMEMBERED: Final = 1 << 16


class Turns:
    """Requests that wait for another one's answer, and those whose answer has come.

    Times are CLOCK_MONOTONIC nanoseconds.
    """

    __slots__ = ("_ended_ns", "_held", "_released", "_unanswered", "_waiting")

    def __init__(self) -> None:
        self._waiting = 0
        self._unanswered: set[int] = set()
        self._held: dict[int, list[Errand]] = {}
        self._released: list[tuple[int, int, Errand]] = []
        self._ended_ns: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return self._waiting + len(self._released)

    def expect(self, number: int) -> None:
        """Learn that a request will have an answer."""
        self._unanswered.add(number)

    def hold(self, errand: Errand) -> None:
        """Take a later turn; the answer it waits for may have come already."""
        self.expect(errand.number)
        if errand.after in self._unanswered:
            self._held.setdefault(errand.after, []).append(errand)
            self._waiting += 1
        else:
            self._release(errand, self._ended_ns.get(errand.after, 0))

    def answered(self, number: int, ended_ns: int, *, whole: bool) -> list[Errand]:
        """Let go the turns that waited for an answer.

        Returns:
            Those that will never go, because the answer was not whole, and all after them.
        """
        self._unanswered.discard(number)
        self._ended_ns[number] = ended_ns
        if len(self._ended_ns) > _REMEMBERED:
            self._ended_ns.popitem(last=False)
        waiting = self._held.pop(number, [])
        self._waiting -= len(waiting)
        if whole:
            for errand in waiting:
                self._release(errand, ended_ns)
            return []
        lost = []
        for errand in waiting:
            lost += [errand, *self.answered(errand.number, ended_ns, whole=False)]
        return lost

    def _release(self, errand: Errand, ended_ns: int) -> None:
        heapq.heappush(self._released, (ended_ns + errand.think_ns, errand.number, errand))

    def due_ns(self) -> int | None:
        """Return when the next turn is due, None when none is."""
        return self._released[0][0] if self._released else None

    def next(self) -> tuple[int, Errand]:
        """Take the turn that is due first, with the time it is due."""
        due_ns, _, errand = heapq.heappop(self._released)
        return due_ns, errand

    def clear(self) -> None:
        """Forget all turns."""
        self._held.clear()
        self._waiting = 0
        self._released.clear()
