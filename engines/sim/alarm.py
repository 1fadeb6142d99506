"""A timer finer than the event loop's own, which rounds up to milliseconds."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable

_MONOTONIC, _NONBLOCK, _ABSOLUTE = 1, os.O_NONBLOCK, 1


class Alarm:
    """Calls back at moments of the monotonic clock; Linux's timerfd where there is one.

    Args:
        loop: the event loop that calls back.
        ring: what is called.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = -1
        if hasattr(self._libc, "timerfd_create"):
            self._file = self._libc.timerfd_create(_MONOTONIC, _NONBLOCK)
        if self._file >= 0:
            loop.add_reader(self._file, self._rang)

    def set(self, at_s: float) -> None:
        """Ring at `at_s` of the monotonic clock, at once if that is past."""
        if at_s <= self._loop.time():
            self._loop.call_soon(self._ring)
        elif self._file < 0:
            self._loop.call_at(at_s, self._ring)
        else:
            seconds = int(at_s)
            setting = struct.pack("qqqq", 0, 0, seconds, int((at_s - seconds) * 1e9))
            self._libc.timerfd_settime(self._file, _ABSOLUTE, setting, None)

    def _rang(self) -> None:
        os.read(self._file, 8)
        self._ring()
