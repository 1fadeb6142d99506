"""How late the loop runs and how the clocks stand, measured from inside the loop."""

from __future__ import annotations

from typing import Final

from runner.load.clocks import Timer, mapping
from runner.load.lags import Lags

TICK_NS: Final = 10_000_000
_STEP_NS: Final = 1_000_000


class Pulse:
    """A tick every 10 ms whose lateness is the event-loop delay.

    Attributes:
        delay: lateness of each tick.
        offset_ns: realtime minus monotonic as last read.
        clock_error_ns: reading error plus all drift seen of that offset.
        clock_steps: times the offset jumped by over 1 ms: someone set the time of day.
    """

    __slots__ = ("_count", "_due_ns", "_timer", "clock_error_ns", "clock_steps", "delay", "fd",
                 "offset_ns")  # fmt: skip

    def __init__(self) -> None:
        self._timer = Timer()
        self.fd = self._timer.fd
        self._due_ns = 0
        self._count = 0
        self.delay = Lags()
        first = mapping()
        self.offset_ns = first.offset_ns
        self.clock_error_ns = first.error_ns
        self.clock_steps = 0

    def start(self, now_ns: int) -> None:
        """Begin to tick."""
        self._due_ns = now_ns + TICK_NS
        self._timer.arm(self._due_ns, TICK_NS)

    def seconds(self) -> float:
        """Return for how long it has been ticking."""
        return self._count * TICK_NS / 1e9

    def tick(self, now_ns: int) -> bool:
        """Note the lateness of a tick; return whether a second has passed since it last did."""
        missed = self._timer.expirations()
        if not missed:
            return False
        self.delay.add((now_ns - self._due_ns,))
        self._due_ns += missed * TICK_NS
        before, self._count = self._count, self._count + missed
        if self._count // 100 == before // 100:
            return False
        self._read_clocks()
        return True

    def _read_clocks(self) -> None:
        found = mapping()
        moved_ns = abs(found.offset_ns - self.offset_ns)
        self.offset_ns = found.offset_ns
        if moved_ns > _STEP_NS:
            self.clock_steps += 1
        else:
            self.clock_error_ns = max(self.clock_error_ns, found.error_ns + moved_ns)
