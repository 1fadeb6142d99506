"""Local commands as servers: no container, no shell, nothing of them left behind.

Each runs below a keeper of its own (`keeper.py`), which ends all its descendants also when this
process is killed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Final

from runner.errors import HostError
from runner.launchers import NO_PULL, Exit, Image, Launch, LaunchError, Pulling, Way, trail
from runner.launchers.kept import BEYOND_GRACE_S, Kept
from runner.launchers.log import LogFile, follow

START_S: Final = 30.0
INHERITED: Final = (
    "HOME",
    "LANG",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "PYTHONPATH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
)
"""What a local server gets of this process's environment unasked."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ProcessServer:
    """A local command and all that descends from it."""

    way: Way = "loopback"

    def __init__(self, kept: Kept, port: int, log: LogFile, reader: Thread) -> None:
        self.load_host = "127.0.0.1"
        self.load_port = port
        self.control_url = f"http://127.0.0.1:{port}"
        self._kept = kept
        self._log = log
        self._reader = reader

    @property
    def pid(self) -> int | None:
        """The command's process id, which is also that of its process group."""
        return self._kept.pid

    def exited(self) -> Exit | None:
        """Return how it ended, None while it lives."""
        return Exit(code=self._kept.code) if self._kept.ended.is_set() else None

    def stop(self, grace_s: float) -> Exit:
        """Send SIGTERM to its process group; after `grace_s`, SIGKILL to all its descendants."""
        self._kept.stop(grace_s)
        return Exit(code=self._kept.code, forced=self._kept.forced)

    def remove(self) -> None:
        """Leave nothing of it behind; its log is complete afterwards.

        Raises:
            HostError: processes of it live on after SIGKILL.
        """
        self._kept.stop(0)
        left = self._kept.left
        self._reader.join(timeout=0 if left else BEYOND_GRACE_S)
        self._log.close()
        if left:
            raise HostError(
                f"processes {left} of a local server live on after SIGKILL, probably inside a "
                f"driver call; look at them with `ps -o pid,stat,wchan,cmd -p {left}`"
            )

    def seconds_of_line(self, line: int) -> float | None:
        """Return when log line `line` (from 1) came: seconds since the start, None if unknown."""
        return self._log.seconds_of_line(line)


class ProcessLauncher:
    """Starts local commands. They see this machine as this user does, so mounts mean nothing.

    Args:
        trails: folder where living servers are noted (see `trail`).
    """

    def __init__(self, trails: Path | None = None) -> None:
        self._trails = trails or trail.folder()

    def resolve(self, image: str, pulling: Pulling = NO_PULL) -> Image:
        """Return `image` without a digest: a local command has none."""
        return Image(reference=image, digest="")

    def start(self, launch: Launch, log: Path) -> ProcessServer:
        """Start a command and follow its output into the file `log` from the first byte.

        Raises:
            LaunchError: it could not be started, or it asks for what only a container has.
        """
        secrets = secret_values(launch.secrets, os.environ)
        if launch.memory_bytes is not None:
            raise LaunchError(
                "create",
                "launch_failed",
                "a local command cannot be given a memory limit; give the engine an image, or "
                "leave the limit out",
            )
        out = LogFile(log, secrets=secrets)
        source, sink = os.pipe()
        try:
            kept = Kept(launch, {**_environment(launch), **secrets}, sink, self._trails)
        finally:
            os.close(sink)
        server = ProcessServer(kept, launch.port, out, follow(source, out))
        if not kept.started.wait(START_S) or kept.pid is None:
            server.remove()
            reason = kept.failure or "its keeper does not answer"
            raise LaunchError("start", "launch_failed", f"{launch.argv[0]}: {reason}")
        return server


def secret_values(names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the variables `names`.

    Raises:
        LaunchError: one of them is not set.
    """
    missing = [name for name in names if name not in environ]
    if missing:
        raise LaunchError(
            "create",
            "launch_failed",
            f"{', '.join(missing)}: named in the experiment but not set here; export it first",
        )
    return {name: environ[name] for name in names}


def _environment(launch: Launch) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if launch.gpus == 0:
        inherited["CUDA_VISIBLE_DEVICES"] = ""
    elif isinstance(launch.gpus, tuple):
        inherited["CUDA_VISIBLE_DEVICES"] = ",".join(launch.gpus)
    return {**inherited, **launch.env}
