"""What a worker sends next and when. Pure: it is told the time and opens nothing."""

from __future__ import annotations

from collections import deque
from typing import Final

from runner.load.feed import Errand
from runner.load.turns import Turns

_WARMING: Final = 16
_AHEAD: Final = 4096
_TURNS_AHEAD: Final = 1 << 16
_AHEAD_BYTES: Final = 256 << 20
_COOL_NS: Final = 100_000_000


class Schedule:
    """Requests to come, oldest first. Times are CLOCK_MONOTONIC nanoseconds.

    In closed loop a request may go when fewer than `cap` are in flight; in open loop also not
    before it is due. A later turn of a session goes first once it is due. Nothing goes before
    `origin_ns`, but for the undated warm-up of an open loop.

    Attributes:
        closed_loop: requests have no times of their own.
        cap: most requests in flight.
        ended: no more requests will come.
        origin_ns: when the load began, None before.
        end_ns: after this nothing is sent, None for never.
        wake_ns: when the next request is due, 0 when it does not wait for a time.
    """

    __slots__ = ("_cool_until_ns", "_duration_ns", "_opens_after_ns", "_queue", "_queued_bytes",
                 "_turns", "cap", "closed_loop", "end_ns", "ended", "origin_ns",
                 "wake_ns")  # fmt: skip

    def __init__(
        self, *, closed_loop: bool, cap: int, duration_ns: int | None, opens_after_ns: int
    ) -> None:
        self.closed_loop = closed_loop
        self.cap = cap
        self._duration_ns = duration_ns
        self._opens_after_ns = opens_after_ns
        self._queue: deque[Errand] = deque()
        self._queued_bytes = 0
        self._turns = Turns()
        self._cool_until_ns = 0
        self.ended = False
        self.origin_ns: int | None = None
        self.end_ns: int | None = None
        self.wake_ns = 0

    def __len__(self) -> int:
        return len(self._queue) + len(self._turns)

    def add(self, errand: Errand) -> None:
        """Take a request that will go after those before it."""
        self._queued_bytes += len(errand.wire)
        if errand.after >= 0:
            self._turns.hold(errand)
        else:
            self._turns.expect(errand.number)
            self._queue.append(errand)

    def wants_more(self) -> bool:
        """Return whether more requests should be brought."""
        most = max(2 * self.cap, 64) if self.closed_loop else _AHEAD
        room = len(self._queue) < most and len(self._turns) < _TURNS_AHEAD
        return not self.ended and room and self._queued_bytes < _AHEAD_BYTES

    def is_primed(self, flying: int) -> bool:
        """Return whether the load can begin: enough is at hand and an undated warm-up is over."""
        warm = self.closed_loop or not (flying or (self._queue and self._queue[0].due_ns < 0))
        return warm and (not self.wants_more() or len(self._queue) >= self.cap)

    def begin(self, origin_ns: int) -> None:
        """Let the load begin at a moment."""
        self.origin_ns = origin_ns
        if not self.closed_loop and self._duration_ns is not None:
            self.end_ns = origin_ns + self._opens_after_ns + self._duration_ns

    def next(self, now_ns: int, flying: int) -> Errand | None:
        """Take the request that may go now, None when none may."""
        self.wake_ns = 0
        before = self.origin_ns is None and not self.closed_loop
        room = min(self.cap, _WARMING) if before else self.cap
        if flying >= room or now_ns < self._cool_until_ns:
            return None
        turn_ns = self._turns.due_ns()
        head_ns = self._due_ns(self._queue[0]) if self._queue else None
        times_ns = [time_ns for time_ns in (turn_ns, head_ns) if time_ns is not None]
        due_ns = min(times_ns, default=None)
        if due_ns is None or self._is_over(due_ns, now_ns):
            return None
        if due_ns > now_ns:
            self.wake_ns = due_ns
            return None
        turn = turn_ns is not None and turn_ns <= now_ns
        errand = self._turn() if turn else self._queue.popleft()
        self._queued_bytes -= len(errand.wire)
        return errand

    def _turn(self) -> Errand:
        due_ns, errand = self._turns.next()
        if self.origin_ns is not None and not self.closed_loop:
            errand.due_ns = due_ns - self.origin_ns
        return errand

    def _is_over(self, due_ns: int, now_ns: int) -> bool:
        """Return whether the window ended: by the clock in closed loop, else by the due time."""
        return self.end_ns is not None and (now_ns if self.closed_loop else due_ns) >= self.end_ns

    def _due_ns(self, errand: Errand) -> int | None:
        if self.origin_ns is not None:
            return self.origin_ns + max(errand.due_ns, 0)
        return 0 if errand.warmup and errand.due_ns < 0 and not self.closed_loop else None

    def intended_ns(self, errand: Errand) -> int:
        """Return when a request was meant to go, -1 where it had no time."""
        if errand.due_ns < 0 or self.origin_ns is None:
            return -1
        return self.origin_ns + errand.due_ns

    def note_sent(self, errand: Errand, sent_ns: int) -> None:
        """Learn of a send: in closed loop the first of the window sets the window's end."""
        if self.end_ns is None and self._duration_ns is not None and not errand.warmup:
            self.end_ns = sent_ns + self._duration_ns

    def note_ended(self, errand: Errand, ended_ns: int, *, whole: bool) -> list[Errand]:
        """Learn of an answer's end; return the turns that will never go because of it."""
        lost = self._turns.answered(errand.number, ended_ns, whole=whole)
        self._queued_bytes -= sum(len(one.wire) for one in lost)
        return lost

    def note_refused(self, now_ns: int) -> None:
        """Learn of a refusal: in closed loop a dead server is not asked again at once."""
        if self.closed_loop:
            self._cool_until_ns = now_ns + _COOL_NS

    def close(self, now_ns: int) -> list[Errand]:
        """Send nothing more; return the requests that were due but found no room."""
        end_ns = min(now_ns, now_ns if self.end_ns is None else self.end_ns)
        late = []
        for errand in self._queue:
            due_ns = self._due_ns(errand)
            if not self.closed_loop and due_ns is not None and due_ns < end_ns:
                late.append(errand)
        self.drop()
        return late

    def drop(self) -> None:
        """Forget all requests to come."""
        self._queue.clear()
        self._turns.clear()
        self._queued_bytes = 0
        self.ended = True
