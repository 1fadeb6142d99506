"""What a launch means to Docker, without Docker: limits we add, and the `docker run` line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from runner.launchers import Launch, Mount

DROPPED: Final = (
    "AUDIT_WRITE",
    "MKNOD",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SETFCAP",
    "SETPCAP",
    "SYS_CHROOT",
)
"""Default capabilities that no serving engine uses."""

NO_NEW_PRIVILEGES: Final = "no-new-privileges"
LOG_DRIVER: Final = "json-file"
LOG_OPTIONS: Final = {"max-file": "2", "max-size": "512m"}
"""The driver is named because a daemon's default may keep nothing that could be read back."""


def equivalent(launch: Launch) -> str:
    """Return the `docker run` line that starts the same container by hand.

    Secrets are named, not shown: `-e HF_TOKEN` hands over the caller's own variable.
    """
    return shlex.join(("docker", "run", *_options(launch), launch.image or "", *launch.argv))


def _options(launch: Launch) -> Iterator[str]:
    yield from ("--name", launch.name, "--init")
    for label, value in sorted(launch.labels.items()):
        yield from ("--label", f"{label}={value}")
    if launch.entrypoint is not None:
        yield from ("--entrypoint", launch.entrypoint)
    yield from _resources(launch)
    for mount in launch.mounts:
        yield from ("--mount", _mount(mount))
    yield from ("--publish", f"127.0.0.1::{launch.port}")
    yield from ("--security-opt", NO_NEW_PRIVILEGES)
    for capability in DROPPED:
        yield from ("--cap-drop", capability)
    yield from ("--log-driver", LOG_DRIVER)
    for option, value in LOG_OPTIONS.items():
        yield from ("--log-opt", f"{option}={value}")
    for name, value in sorted(launch.env.items()):
        yield from ("-e", f"{name}={value}")
    for name in launch.secrets:
        yield from ("-e", name)


def _resources(launch: Launch) -> Iterator[str]:
    if isinstance(launch.gpus, tuple):
        device = f"device={','.join(launch.gpus)}"
        # Docker reads the value as CSV, so a list of devices needs quotes of its own
        yield from ("--gpus", device if len(launch.gpus) == 1 else f'"{device}"')
    elif launch.gpus:
        yield from ("--gpus", str(launch.gpus))
    if launch.host_ipc:
        yield from ("--ipc", "host")
    elif launch.shm_bytes is not None:
        yield from ("--shm-size", str(launch.shm_bytes))
    if launch.cpus is not None:
        yield from ("--cpuset-cpus", launch.cpus)
    if launch.memory_bytes is not None:
        yield from ("--memory", str(launch.memory_bytes))


def _mount(mount: Mount) -> str:
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
    return ",".join(_csv(field) for field in [*fields, *["readonly"][: mount.read_only]])


def _csv(field: str) -> str:
    return '"' + field.replace('"', '""') + '"' if set(field) & {",", '"'} else field
