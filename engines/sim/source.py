"""What a client asks next, and when it sends it: the other side of a simulation offline."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

TURN_S: Final = 0.0003
"""From the end of an answer to the client's next request."""
APART_S: Final = 0.00015
"""Between two requests that a client sends at once. So a burst is never one step: what arrives
first runs alone, and the rest is seen two steps later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to simulate.

    Attributes:
        prompt: token ids, or a length for a prompt that shares nothing with any other.
        output_tokens: exact output length.
        limit_tokens: the output length that the client allows, where it is another.
        fixed_length: the end-of-sequence token is ignored.
        due_s: when it is sent, in open loop.
        after: number of the request whose answer it waits for (a later turn), from 0.
        think_s: how long after that answer it is sent.
        constrained: its output follows a grammar.
        grammar_s: compiling that grammar, where it is new.
        answer: what will be answered; None where nobody keeps it.
        refused: why the server would refuse it; empty where it would not.
        group: what belongs together; carried through.
        role: part it plays; carried through.
    """

    prompt: Sequence[int] | int
    output_tokens: int
    limit_tokens: int | None = None
    fixed_length: bool = True
    due_s: float = 0.0
    after: int | None = None
    think_s: float = 0.0
    constrained: bool = False
    grammar_s: float = 0.0
    answer: str | None = None
    refused: str = ""
    group: str = ""
    role: str = ""

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return self.prompt if isinstance(self.prompt, int) else len(self.prompt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How requests are sent. Times are simulated seconds.

    Attributes:
        concurrency: how many are under way at once (closed loop); None sends each at its own time.
        request_s: passes between a send and the moment the scheduler sees the request.
        turn_s: passes between the end of one answer and the send that follows it.
        apart_s: least between two requests that the scheduler sees: the client sends, and the
            server reads, one after another.
        before: how many of the requests precede the window.
        duration_s: nothing is sent so long after the window opened; None for no end.
        opens_s: the window opens so long after the first arrival could come, in open loop.
    """

    concurrency: int | None = None
    request_s: float = 0.0
    turn_s: float = 0.0
    apart_s: float = 0.0
    before: int = 0
    duration_s: float | None = None
    opens_s: float = 0.0


class Source:
    """The requests to come.

    In closed loop a free slot goes to a later turn that is due, else to the next request, else it
    waits for a turn; in open loop each goes at its time.

    Args:
        asks: the requests in their order, taken as they are needed.
        pattern: how they are sent.
        origin_s: when the first may be sent.
    """

    def __init__(self, asks: Iterable[Ask], pattern: Pattern, origin_s: float) -> None:
        self._asks = enumerate(asks)
        self._pattern = pattern
        self._origin_s = origin_s
        self._free = math.inf if pattern.concurrency is None else pattern.concurrency
        self._held: dict[int, list[tuple[int, Ask]]] = {}
        self._due: list[tuple[float, int, Ask]] = []
        self._ended_s: dict[int, float] = {}
        self._end_s = math.inf
        if pattern.concurrency is None and pattern.duration_s is not None:
            self._end_s = origin_s + pattern.opens_s + pattern.duration_s

    def send(self, now_s: float) -> Iterator[tuple[float, int, Ask]]:
        """Yield what is sent now or at a time that is known: when, its number, and what."""
        while self._free > 0 and (found := self._next(now_s)) is not None:
            sent_s, number, _ = found
            if sent_s >= self._end_s:
                return
            if self._pattern.concurrency is not None and number == self._pattern.before:
                self._end_s = sent_s + (self._pattern.duration_s or math.inf)
            self._free -= 1
            yield found

    def ended(self, number: int, ended_s: float, *, whole: bool = True) -> None:
        """Learn of an answer's end; turns that waited for one that is not whole are lost."""
        self._free += 1
        waiting = self._held.pop(number, [])
        if whole:
            self._ended_s[number] = ended_s
            for turn, ask in waiting:
                heapq.heappush(self._due, (ended_s + ask.think_s, turn, ask))

    def _next(self, now_s: float) -> tuple[float, int, Ask] | None:
        if not self._due or self._due[0][0] > now_s:
            head = self._head(now_s)
            if head is not None:
                return head
        if not self._due:
            return None
        due_s, number, ask = heapq.heappop(self._due)
        return max(due_s, now_s), number, ask

    def _head(self, now_s: float) -> tuple[float, int, Ask] | None:
        """Return the next request that waits for no answer; later turns on the way are kept."""
        for number, ask in self._asks:
            if ask.after is None:
                sent_s = self._origin_s + ask.due_s
                return (sent_s if self._pattern.concurrency is None else now_s), number, ask
            if ask.after in self._ended_s:
                due_s = self._ended_s[ask.after] + ask.think_s
                heapq.heappush(self._due, (due_s, number, ask))
            else:
                self._held.setdefault(ask.after, []).append((number, ask))
        return None
