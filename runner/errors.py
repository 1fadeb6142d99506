"""Every error that ends a command, with its exit code. Only `cli` catches them.

    RunnerError            1
    ├── ExperimentError    2   the command or the experiment file is wrong; nothing was started
    ├── HostError          3   Docker, image, model access, GPU, disk or a lock does not allow it
    └── NotEnoughData      4   no verdict is possible yet

What an engine or a request does wrong is no error: it is an outcome in a row.
"""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1
INTERRUPTED: Final = 130


class RunnerError(Exception):
    """What happened, the likely cause, and what to type next: one message for a person."""

    exit_code = FAILED


class ExperimentError(RunnerError):
    """The command or the experiment file is wrong; nothing was started."""

    exit_code = 2


class HostError(RunnerError):
    """The environment does not allow it: Docker, image, model access, GPU, disk, lock."""

    exit_code = 3


class NotEnoughData(RunnerError):  # noqa: N818 - it is an answer, not a fault
    """There is not enough data for a verdict, or the budget ended first."""

    exit_code = 4
