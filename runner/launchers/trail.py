"""What a local server leaves on disk, so that a later run finds it if runner and keeper die.

One small JSON file for each living server, below XDG_STATE_HOME
(https://specifications.freedesktop.org/basedir-spec/latest/); it goes when the server does.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from runner.launchers.keeper import KILL_S, POLL_S, descendants, pids, stat
from runner.owners import owner

VARIABLE: Final = "RUNNER_SERVER"
"""Environment variable that all descendants of a local server inherit, to be told by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """Where to look for one local server.

    Attributes:
        token: value of `VARIABLE` in its environment.
        name: the launch's name.
        labels: whose it is, as on a container.
        keeper: pid of its keeper.
        keeper_ticks: start time of the keeper, in clock ticks since boot.
        group: pid and process group of the command.
        group_ticks: start time of the command.
    """

    token: str
    name: str
    labels: Mapping[str, str]
    keeper: int
    keeper_ticks: int
    group: int
    group_ticks: int

    def write(self, folder: Path) -> None:
        """Write it; where that fails the keeper alone has to do."""
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = folder / f"{self.token}.part"
            part.write_text(json.dumps(asdict(self)), encoding="utf-8")
            part.rename(self.path(folder))

    def erase(self, folder: Path) -> None:
        """Remove it; safe to call twice."""
        with suppress(OSError):
            self.path(folder).unlink()

    def path(self, folder: Path) -> Path:
        """Return its file."""
        return folder / f"{self.token}.json"

    def members(self) -> Iterator[tuple[int, bool]]:
        """Yield (pid, certainly of this server) of the living processes that may be its own.

        Certain are: what is below its keeper, what shares the group of the command itself, and
        what inherited its token. A group whose first process is gone may be another's by now.
        """
        below: set[int] = set()
        if self._is(self.keeper, self.keeper_ticks):
            below = {self.keeper, *descendants(self.keeper)}
        led = self._is(self.group, self.group_ticks)
        for pid in pids():
            state, _, group = [*stat(pid), "", "", ""][:3]
            if state in {"", "Z"}:
                continue
            if pid in below or _has_token(pid, self.token):
                yield pid, True
            elif group == str(self.group):
                yield pid, led

    def end(self, *, sure: bool) -> list[int]:
        """Kill its processes, only those certainly its own where `sure`; return what lives on."""
        deadline_s = time.monotonic() + KILL_S
        while True:
            living = list(self.members())
            doomed = [pid for pid, certain in living if certain or not sure]
            if not doomed or time.monotonic() > deadline_s:
                return [pid for pid, _ in living]
            for pid in doomed:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)

    def _is(self, pid: int, ticks: int) -> bool:
        return owner.started_ticks(pid) == ticks


def folder() -> Path:
    """Return where this user's trails lie, those of each machine boot and PID namespace apart."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    here = f"{owner.machine_boot()}-{owner.pid_namespace()}"
    return Path(state).expanduser() / "runner" / "servers" / here


def trails(folder: Path) -> Iterator[Trail]:
    """Yield the trails in a folder; what is no trail is passed over."""
    for path in sorted(folder.glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            yield Trail(**json.loads(path.read_text(encoding="utf-8")))


def _has_token(pid: int, token: str) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{VARIABLE}={token}".encode() in environ.split(b"\0")
