"""Where a server comes from: a container (`docker`), a local command (`process`), a URL (`attach`).

One file each, all with the same door: `Launcher.start` gives a `Server`, whose life the caller
watches and ends. A launcher knows nothing of engines: it starts what it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Way = Literal["container", "host", "published", "loopback", "remote"]
"""How the load reaches a server: `container` is the container's own address, `host` the host's
network, `published` a port that Docker's proxy forwards (it distorts timing), `loopback` a local
process, `remote` a URL that was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of this machine that the server sees."""

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One server to start, engine knowledge already spelled out.

    Attributes:
        name: a name that no other launch bears; the container's name.
        image: image reference or digest; None for a local process or a URL.
        argv: the whole command: program and flags (in a container: what follows the image).
        entrypoint: program that takes the place of an image's own; None keeps that.
        url: for `attach`, where the server already answers.
        port: where it will listen; for `docker` the port inside the container.
        env: plain environment.
        secrets: names of variables to hand over from this process's environment; their values
            must never be stored or printed.
        mounts: host folders it sees.
        gpus: number of GPUs, or their UUIDs; 0 for none.
        cpus: cores it may use, as `0-3,5`; None for all.
        memory_bytes: its memory limit; None for none.
        shm_bytes: size of /dev/shm; None for the default.
        host_ipc: share the host's IPC namespace instead.
        labels: container labels that say whose it is.
        create_s: longest time until Docker has created its container.
        start_s: longest time until Docker has started it.
    """

    name: str
    image: str | None = None
    argv: tuple[str, ...] = ()
    entrypoint: str | None = None
    url: str | None = None
    port: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    gpus: int | tuple[str, ...] = 0
    cpus: str | None = None
    memory_bytes: int | None = None
    shm_bytes: int | None = None
    host_ipc: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    create_s: float = 120
    start_s: float = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a server's life ended.

    Attributes:
        code: exit code; negative for a signal of a local process, None where nobody can tell.
        oom_killed: the kernel killed it for memory (Docker's OOMKilled).
        removed: it is gone altogether: someone removed it behind our back.
        daemon_lost: Docker's daemon went away while it lived, which may be what ended it.
        forced: it did not end within the grace of a stop, and was killed.
    """

    code: int | None
    oom_killed: bool = False
    removed: bool = False
    daemon_lost: bool = False
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulling:
    """How an image comes to this machine.

    Attributes:
        when: where it is `missing`, `always` (a tag may have moved), or `never`.
        limit_s: longest time of one pull, tries and pauses included.
        tell: says how far it is.
        pause_s: first pause before another try; later ones are longer.
    """

    when: Literal["missing", "always", "never"] = "never"
    limit_s: float = 3600
    tell: Callable[[str], None] = lambda said: None
    pause_s: float = 2.0


NO_PULL = Pulling()


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What an image reference became.

    Attributes:
        reference: as written.
        digest: repository digest where there is one, else the image id.
    """

    reference: str
    digest: str


class Server(Protocol):
    """A started server. `stop` and `remove` are safe to call twice and on a dead server."""

    control_url: str
    """Base URL for control calls, as `http://127.0.0.1:49153`."""
    load_host: str
    """Address the load is sent to: the server's own wherever it can be reached."""
    load_port: int
    way: Way

    def exited(self) -> Exit | None:
        """Return how it ended, None while it lives."""

    def stop(self, grace_s: float) -> Exit:
        """Ask it to end, wait `grace_s`, then end it by force; return how it ended."""

    def remove(self) -> None:
        """Leave nothing of it behind; its log is complete afterwards."""

    def seconds_of_line(self, line: int) -> float | None:
        """Return when log line `line` (from 1) came: seconds since the start, None if unknown."""


class Launcher(Protocol):
    """Starts servers of one kind."""

    def resolve(self, image: str, pulling: Pulling = NO_PULL) -> Image:
        """Return what an image reference stands for now, pulled before where that is asked.

        Raises:
            HostError: it cannot be had, or Docker does not answer.
        """

    def start(self, launch: Launch, log: Path) -> Server:
        """Start a server and follow its output into the file `log` from the first byte.

        Raises:
            LaunchError: it could not be created or started; nothing is left of it.
        """


class LaunchError(Exception):
    """A server could not be started. A failed boot, not the end of the run.

    Attributes:
        phase: `create` or `start`.
        cause: a name of `engines.causes.CATALOGUE`.
    """

    def __init__(self, phase: str, cause: str, message: str) -> None:
        super().__init__(message)
        self.phase = phase
        self.cause = cause
