"""The keeper of one local server as the runner sees it: what it said, and how to stop it."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Final

from runner.launchers import Launch, keeper, trail
from runner.launchers.trail import Trail
from runner.owners.owner import started_ticks

BEYOND_GRACE_S: Final = keeper.KILL_S + 10.0


class Kept:
    """A started keeper.

    Args:
        launch: the server to keep.
        environment: all that the server gets.
        sink: descriptor of its output.
        trails: folder where it is noted while it lives.
    """

    def __init__(
        self, launch: Launch, environment: Mapping[str, str], sink: int, trails: Path
    ) -> None:
        self.pid: int | None = None
        self.code: int | None = None
        self.failure = ""
        self.left = ""
        self.forced = False
        self.started = Event()
        self.ended = Event()
        self._launch = launch
        self._trails = trails
        self._token = uuid.uuid4().hex
        self._trail: Trail | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-IS", keeper.__file__, launch.cpus or "", *launch.argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            env={**environment, trail.VARIABLE: self._token},
            start_new_session=True,
        )
        self._ear = Thread(target=self._listen, name="keeper", daemon=True)
        self._ear.start()

    def stop(self, grace_s: float) -> None:
        """End the server; return when it and all its descendants have ended."""
        if self._process.poll() is None:
            self._tell(f"stop {grace_s}\n")
            try:
                self._process.wait(grace_s + BEYOND_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._ear.join()
        self._close()
        if self._trail is not None:
            # nothing lives on here unless someone killed the keeper
            left = self._trail.end(sure=False)
            self.left = ",".join(map(str, left))
            if not left:
                self._trail.erase(self._trails)
                self._trail = None

    def _tell(self, words: str) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            try:
                self._process.stdin.write(words.encode())
                self._process.stdin.flush()
            except BrokenPipeError:
                return

    def _close(self) -> None:
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                return

    def _listen(self) -> None:
        if self._process.stdout is not None:
            with self._process.stdout as said:
                for line in said:
                    self._note(*line.decode(errors="replace").strip().partition(" ")[::2])
        self.started.set()
        self.ended.set()

    def _note(self, word: str, rest: str) -> None:
        match word:
            case "started":
                self.pid = int(rest)
                self._trail = self._noted(self.pid)
                self.started.set()
            case "ended":
                self.code = int(rest)
                self.ended.set()
            case "forced":
                self.forced = True
            case "failed":
                self.failure = rest

    def _noted(self, group: int) -> Trail:
        noted = Trail(
            token=self._token,
            name=self._launch.name,
            labels=dict(self._launch.labels),
            keeper=self._process.pid,
            keeper_ticks=_ticks(self._process.pid),
            group=group,
            group_ticks=_ticks(group),
        )
        noted.write(self._trails)
        return noted


def _ticks(pid: int) -> int:
    ticks = started_ticks(pid)
    return ticks if isinstance(ticks, int) else -1
