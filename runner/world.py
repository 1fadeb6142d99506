"""The edges of a run: where servers start, which GPUs there are, what the environment holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runner.boots.gpu import Nvml, open_nvml
from runner.boots.measure import Client
from runner.errors import HostError
from runner.launchers import Launcher
from runner.load.floor import Floor, floor
from runner.owners.clean import Finding, sweep_containers, sweep_local


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


def sweep_of(kinds: frozenset[str]) -> tuple[Finding, ...]:
    """Remove what dead runners left behind; return all that runners started here.

    Raises:
        HostError: Docker does not answer, where containers are in use.
    """
    found = [*sweep_local()]
    if "docker" in kinds:
        from runner.launchers.daemon import Daemon

        found += sweep_containers(Daemon())
    return tuple(found)


def floor_of(client: Client) -> Floor:
    """Measure for two seconds what the client adds by itself."""
    return floor(workers=client.workers, cpus=client.cpus)


@dataclass(frozen=True, kw_only=True)
class World:
    """What a run touches outside itself; tests give other edges.

    Attributes:
        launcher: kind -> launcher; each is asked for once.
        sweep: removes what dead runners left behind, for the launchers in use; tells what it found.
        nvml: opens NVML, None where there is none.
        floor: measures the client against a server whose times are known.
        environment: variables of this process.
    """

    launcher: Callable[[str], Launcher] = launcher_of
    sweep: Callable[[frozenset[str]], tuple[Finding, ...]] = sweep_of
    nvml: Callable[[], Nvml | None] = open_nvml
    floor: Callable[[Client], Floor] = floor_of
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
