"""How the scheduler treats measuring and parsing processes; nothing here needs privileges."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
from typing import Final

_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274}
_SLICE_NS: Final = 100_000


def be_prompt() -> bool:
    """Ask for short time slices, so that waking up preempts neighbours with long ones.

    Linux 6.12 and later (EEVDF, sched_attr::sched_runtime of a normal task); it gives no larger
    share of the core. Returns whether the kernel took it.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack("IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, _SLICE_NS, 0, 0)
    return bool(ctypes.CDLL(None).syscall(number, 0, attributes, 0) == 0)


def yield_always() -> None:
    """Run only when nobody else wants the core."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
