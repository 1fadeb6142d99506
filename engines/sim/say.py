"""The simulated engine's log: standard output, each line at once."""

from __future__ import annotations

import sys


def say(*lines: str) -> None:
    """Print log lines."""
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
