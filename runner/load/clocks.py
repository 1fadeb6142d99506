"""One clock for everything: CLOCK_MONOTONIC in nanoseconds, and the kernel's stamps mapped onto it.

The kernel stamps received segments with CLOCK_REALTIME (SO_TIMESTAMPNS, Linux
Documentation/networking/timestamping.rst). Both clocks are slewed alike, so their difference moves
only when someone sets the time of day; it is measured again and again and its error is stated.
"""

from __future__ import annotations

import ctypes
import os
import socket
import time
from dataclasses import dataclass

SO_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
"""Python 3.11 does not name it; 35 on every architecture but MIPS, PA-RISC and SPARC."""

STAMP_SPACE_BYTES = socket.CMSG_SPACE(16)
"""Room for the control message of one stamp: a timespec of two 64-bit numbers."""

_TIMER_ABSTIME = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """How CLOCK_REALTIME maps onto CLOCK_MONOTONIC at one moment.

    Attributes:
        offset_ns: realtime minus monotonic.
        error_ns: half the time the three readings took.
    """

    offset_ns: int
    error_ns: int


def mapping(tries: int = 5) -> Mapping:
    """Read both clocks `tries` times and keep the tightest reading."""
    best = None
    for _ in range(tries):
        before_ns = time.monotonic_ns()
        real_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        found = (after_ns - before_ns, real_ns - (before_ns + after_ns) // 2)
        best = min(best, found) if best else found
    if best is None:
        raise ValueError("a mapping needs at least one reading")
    return Mapping(offset_ns=best[1], error_ns=best[0] // 2 + 1)


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Timerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class Timer:
    """A timer that epoll can wait for (timerfd_create(2)): poll's own timeout counts whole ms."""

    __slots__ = ("_libc", "fd")

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def arm(self, at_ns: int, every_ns: int = 0) -> None:
        """Fire at an absolute time, and then again every `every_ns` when that is not 0."""
        spec = _Timerspec(
            _Timespec(*divmod(every_ns, 1_000_000_000)),
            _Timespec(*divmod(max(at_ns, 1), 1_000_000_000)),
        )
        if self._libc.timerfd_settime(self.fd, _TIMER_ABSTIME, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def expirations(self) -> int:
        """Return how often it fired since it was last asked, without waiting."""
        try:
            return int.from_bytes(os.read(self.fd, 8), "little")
        except BlockingIOError:
            return 0
