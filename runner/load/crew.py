"""Worker processes and their parsers, as the parent holds them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_PIPE_BYTES: Final = 1 << 20
_PENDING_BYTES: Final = 4 << 20
_SETPIPE_SZ: Final = getattr(fcntl, "F_SETPIPE_SZ", 1031)
MODULES: Final = {"worker": "runner.load.worker", "parse": "runner.load.parse"}
_END_LIMIT_S: Final = 60.0
_PARSE_LIMIT_S: Final = 3600.0
_ROOT: Final = Path(__file__).resolve().parents[2]


class Member:
    """One worker, the parser beside it, and the pipe that feeds it.

    Attributes:
        ready: it has said that it is.
        flying: requests in flight when it last said so, every 0.2 s.
        silent_s: how long nothing had come then; 0 while nothing was in flight.
        measuring: a request of the window was sent by then.
        shard: file of its timelines.
        started_ns: when it was started.
    """

    def __init__(self, number: int, spool: Path, config: Mapping[str, Any]) -> None:
        self._folder = spool / f"worker-{number}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self.shard = spool / f"worker-{number}.timelines"
        self._reports = (self._folder / "worker.json", self._folder / "parser.json")
        self._pending: deque[memoryview] = deque()
        self._pending_bytes = 0
        self._ended = False
        self.ready = False
        self.flying = 0
        self.silent_s = 0.0
        self.measuring = False
        self.started_ns = time.monotonic_ns()
        self.control, theirs = socket.socketpair()
        raw = self._folder / "raw"
        with theirs:
            theirs.set_inheritable(True)
            self.worker = self._start("worker", str(theirs.fileno()), fds=(theirs.fileno(),))
        self.parser = self._start(
            "parse", str(raw), str(self.shard), str(self._reports[1]), str(os.getpid())
        )
        if config["cpus"]:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self.parser.pid, config["cpus"])
        if self.worker.stdin is None:
            raise ValueError("a worker has no feed")
        self.feed_fd = self.worker.stdin.fileno()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.feed_fd, _SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(self.feed_fd, False)
        settings = {**config, "spool": str(raw), "report": str(self._reports[0])}
        self.give(json.dumps(settings).encode() + b"\n")

    def _start(
        self, module: str, *words: str, fds: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes]:
        with (self._folder / f"{module}.stderr").open("wb") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", MODULES[module], *words],
                stdin=subprocess.PIPE if fds else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=fds,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )

    def has_room(self) -> bool:
        """Return whether it wants more requests now."""
        return self._pending_bytes < _PENDING_BYTES

    def give(self, frame: bytes) -> None:
        """Queue bytes for the feed; a worker that reads no more gets none."""
        if self.feed_fd < 0:
            return
        self._pending.append(memoryview(frame))
        self._pending_bytes += len(frame)

    def give_last(self) -> None:
        """Say that no more will come."""
        self._ended = True

    def wants_write(self) -> bool:
        """Return whether the feed is open and has something to take or to be told."""
        return self.feed_fd >= 0 and (bool(self._pending) or self._ended)

    def push(self) -> None:
        """Write what the pipe takes now; close it after the last request."""
        try:
            while self._pending:
                sent = os.write(self.feed_fd, self._pending[0])
                self._pending_bytes -= sent
                left = self._pending.popleft()[sent:]
                if left:
                    self._pending.appendleft(left)
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._pending.clear()
            self._pending_bytes = 0
            self._ended = True
        if self._ended:
            self._close_feed()

    def _close_feed(self) -> None:
        self.feed_fd = -1
        if self.worker.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.worker.stdin.close()

    def say(self, **order: object) -> None:
        """Give the worker an order; a dead one does not hear it."""
        with contextlib.suppress(OSError):
            self.control.sendall(json.dumps(order).encode() + b"\n")

    def hear(self) -> bool:
        """Read what the worker says; return False when it has ended."""
        with contextlib.suppress(ConnectionResetError):
            said = self.control.recv(1 << 16)
            self.ready = self.ready or b"ready" in said
            self._note_flying(said)
            return bool(said)
        return False

    def _note_flying(self, said: bytes) -> None:
        """Keep the last whole line of how it goes."""
        counts = [line for line in said.split(b"\n")[:-1] if line.startswith(b"flying ")]
        if counts:
            flying, silent_ms, measuring = map(int, counts[-1].split()[1:])
            self.flying, self.silent_s = flying, silent_ms / 1e3
            self.measuring = bool(measuring)

    def join(self) -> str | None:
        """Wait for the worker, which has said its last; return what went wrong with it."""
        return self._wait(self.worker, "worker", _END_LIMIT_S)

    def join_parser(self) -> str | None:
        """Wait until everything is parsed; return what went wrong."""
        (self._folder / "raw").mkdir(exist_ok=True)
        (self._folder / "raw" / "end").touch()
        return self._wait(self.parser, "parse", _PARSE_LIMIT_S)

    def _wait(self, process: subprocess.Popen[bytes], name: str, limit_s: float) -> str | None:
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"the load's {name} process did not end within {limit_s:g} s"
        tail = (self._folder / f"{name}.stderr").read_text(errors="replace").strip()[-300:]
        return f"the load's {name} process ended with code {code}: {tail}" if code else None

    def reports(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the reports of worker and parser, empty where one left none."""
        found = [json.loads(path.read_text()) if path.exists() else {} for path in self._reports]
        return found[0], found[1]

    def kill_worker(self) -> None:
        """End a worker that does not listen."""
        self.worker.kill()

    def end(self) -> None:
        """Leave no process and no descriptor behind."""
        for process in (self.worker, self.parser):
            if process.poll() is None:
                process.kill()
            process.wait()
        self.control.close()
        if self.worker.stdin is not None and self.feed_fd >= 0:
            with contextlib.suppress(BrokenPipeError):
                self.worker.stdin.close()
