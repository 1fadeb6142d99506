"""What this machine is, for the rows: processor, cores, kernel."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def described() -> str:
    """Return CPU model, usable cores and kernel in one line."""
    cores = len(os.sched_getaffinity(0))
    return f"{_processor()}, {cores} cores, {platform.system()} {platform.release()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def cores_of(text: str | None) -> tuple[int, ...] | None:
    """Return the cores that `0-2,5` names, None for None.

    Raises:
        ValueError: it is no list of cores.
    """
    if text is None:
        return None
    cores: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cores))
