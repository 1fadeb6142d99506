"""One container of ours: watched, followed, ended and removed through any restart of Docker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Final

from runner.errors import HostError
from runner.launchers import Exit, Way
from runner.launchers.daemon import POLL_S, Daemon, DaemonGone, Refused
from runner.launchers.log import LogFile

KILL_S: Final = 30.0
DRAIN_S: Final = 10.0
SETTLE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a container is reached from here."""

    host: str
    port: int
    way: Way


class DockerServer:
    """A started container, followed from its first byte."""

    def __init__(self, daemon: Daemon, container: str, log: LogFile) -> None:
        self.id = container
        self._daemon = daemon
        self._log = log
        self._exit: Exit | None = None
        self._ended = Event()
        self._removed = Event()
        self._watcher = Thread(target=self._watch, name="watch", daemon=True)
        self._reader = Thread(target=self._read, name="log", daemon=True)
        self._watcher.start()
        self._reader.start()

    def at(self, address: Address) -> None:
        """Say where it is reached."""
        self.load_host = address.host
        self.load_port = address.port
        self.way: Way = address.way
        self.control_url = f"http://{address.host}:{address.port}"

    def exited(self) -> Exit | None:
        """Return how it ended, None while it lives or nobody can tell. Asks nobody."""
        return self._exit

    def stop(self, grace_s: float) -> Exit:
        """Send SIGTERM, after `grace_s` SIGKILL; return how it ended.

        Raises:
            HostError: Docker does not answer.
        """
        self._signal("SIGTERM")
        if forced := not self._ended.wait(grace_s):
            self._signal("SIGKILL")
            self._ended.wait(KILL_S)
        return replace(self._exit or Exit(code=None), forced=forced)

    def remove(self) -> None:
        """Remove the container; its log is complete afterwards.

        Raises:
            HostError: Docker does not answer, or cannot end it.
        """
        if self._removed.is_set():
            return
        self._signal("SIGKILL")
        self._ended.wait(KILL_S)
        self._drain()
        self._removed.set()
        self._log.close()
        try:
            self._daemon.ask(lambda: self._daemon.remove(self.id))
        except (DaemonGone, Refused) as error:
            self._removed.clear()
            raise HostError(
                f"{error}; then remove it with `docker rm -f {self.id[:12]}`"
            ) from error

    def seconds_of_line(self, line: int) -> float | None:
        """Return when log line `line` (from 1) came: seconds since the start, None if unknown."""
        return self._log.seconds_of_line(line)

    def _signal(self, signal: str) -> None:
        if self._ended.is_set():
            return
        try:
            self._daemon.ask(lambda: self._daemon.kill(self.id, signal))
        except Refused:
            return  # it has ended or is gone: the watcher says how
        except DaemonGone as error:
            raise HostError(f"{error}; container {self.id[:12]} may still run") from error

    def _drain(self) -> None:
        """Wait until the reader has all output, as long as it gets on."""
        before = -1
        while self._reader.is_alive() and before != self._log.taken_bytes:
            before = self._log.taken_bytes
            self._reader.join(DRAIN_S)

    def _watch(self) -> None:
        """Learn how it ends, through any restart of the daemon."""
        code, lost = None, False
        while not (self._ended.is_set() or self._removed.is_set()):
            try:
                code = self._daemon.wait(self.id)
                state = self._daemon.inspect(self.id)["State"]
                self._end(
                    Exit(
                        code=code,
                        oom_killed=state["OOMKilled"],
                        removed=state["Status"] in {"removing", "dead"},
                        daemon_lost=lost or not self._daemon.listens,
                    )
                )
            except Refused as refused:
                if refused.status == 404:
                    self._end(Exit(code=code, removed=True, daemon_lost=lost))
                self._ended.wait(POLL_S)
            except DaemonGone:
                lost = True
                self._ended.wait(POLL_S)

    def _end(self, how: Exit) -> None:
        self._exit = how
        self._ended.set()

    def _read(self) -> None:
        """Copy its output into the log; after an interruption, go on where it broke off."""
        taken = 0
        while not self._removed.is_set():
            over = self._ended.is_set()
            try:
                for number, frame in enumerate(self._daemon.frames(self.id)):
                    if number >= taken:
                        self._log.take(frame)
                        taken += 1
                if over or self._is_over():
                    return
            except Refused as refused:
                if refused.status == 404:
                    return
            except DaemonGone:
                pass
            self._removed.wait(POLL_S)

    def _is_over(self) -> bool:
        """Whether output that ended is complete, and was not cut off by a leaving daemon."""
        self._ended.wait(SETTLE_S)
        return self._exit is not None and not self._exit.daemon_lost
