"""Answers one serving question honestly. What the commands do is importable from here, lazily."""

from __future__ import annotations

import importlib
from typing import Any

_DOORS = {
    "read": "runner.experiment.read",
    "expand": "runner.plan",
    "execute": "runner.run",
    "results": "runner.stored.frames",
}

__all__ = ["execute", "expand", "read", "results"]


def __getattr__(name: str) -> Any:
    """Import a door when it is first used: a load worker must not pay for pandas."""
    if name not in _DOORS:
        raise AttributeError(name)
    return getattr(importlib.import_module(_DOORS[name]), name)
