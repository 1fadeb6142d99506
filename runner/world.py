"""The edges of a run: where servers start, which GPUs there are, what the environment holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runner.errors import HostError
from runner.gpu import Gpus, found_gpus
from runner.launchers import Launcher


def launcher_of(kind: str) -> Launcher:
    """Return the launcher of a kind; Docker's library is imported only when it is asked for.

    Raises:
        HostError: Docker does not answer.
    """
    match kind:
        case "docker":
            from runner.launchers.docker import DockerLauncher

            return DockerLauncher()
        case "process":
            from runner.launchers.process import ProcessLauncher

            return ProcessLauncher()
        case "attach":
            from runner.launchers.attach import AttachLauncher

            return AttachLauncher()
    raise HostError(f"there is no launcher {kind!r}")


@dataclass(frozen=True, kw_only=True)
class World:
    """What a run touches outside itself; tests give other edges.

    Attributes:
        launcher: kind -> launcher; each is asked for once.
        gpus: what NVML tells of this machine.
        environment: variables of this process.
    """

    launcher: Callable[[str], Launcher] = launcher_of
    gpus: Callable[[], Gpus] = found_gpus
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
