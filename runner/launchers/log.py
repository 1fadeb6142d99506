"""A server's output on its way into a file: when each line came, and no secret in it."""

from __future__ import annotations

import bisect
import os
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 1 << 30
TAIL_BYTES: Final = 1 << 20
READ_BYTES: Final = 1 << 16
MARKS: Final = 1 << 16
SHORTEST_SECRET: Final = 4


class LogFile:
    """Writes output as it comes, unbuffered, so that others can read the file meanwhile.

    Memory stays bounded whatever a server prints. At most `MARKS` receive times are kept; beyond
    that every second one is dropped, and a line then gets the time of a line shortly before it.
    After `limit_bytes` the middle is left out: a sentence says how much, and the last
    `TAIL_BYTES`, which tell how a server ended, follow it when the file is closed.

    Args:
        path: the file; what it held is replaced.
        secrets: values that are replaced by their names, as `[HF_TOKEN]`.
        clock: seconds, monotonic; its value now is the start that line times count from.
        limit_bytes: size from which the middle is left out.
    """

    def __init__(
        self,
        path: Path,
        *,
        secrets: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        limit_bytes: int = LIMIT_BYTES,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._clock = clock
        self._start_s = clock()
        self._limit_bytes = limit_bytes
        self._mask = _Mask(secrets or {})
        self._times = _LineTimes()
        self._written_bytes = 0
        self.taken_bytes = 0
        self._tail = _Tail(TAIL_BYTES)
        self._lock = threading.Lock()

    def started_now(self) -> None:
        """Let line times count from now."""
        self._start_s = self._clock()

    def take(self, data: bytes) -> None:
        """Write what a server just printed."""
        with self._lock:
            self.taken_bytes += len(data)
            if not self._file.closed:
                self._write(self._mask.through(data), self._clock() - self._start_s)

    def seconds_of_line(self, line: int) -> float | None:
        """Return when line `line` (from 1) began to come, in seconds since the start."""
        with self._lock:
            return self._times.of(line)

    def close(self) -> None:
        """Write what was held back and close the file; safe to call twice."""
        with self._lock:
            if self._file.closed:
                return
            self._write(self._mask.rest(), self._clock() - self._start_s)
            with suppress(OSError):
                self._write_tail()
            self._file.close()

    def _write_tail(self) -> None:
        if self._tail.dropped_bytes:
            note = f"\n[runner: {self._tail.dropped_bytes} bytes left out here]\n"
            _write_all(self._file.fileno(), note.encode())
        _write_all(self._file.fileno(), self._tail.kept())

    def _write(self, data: bytes, at_s: float) -> None:
        head = data[: max(0, self._limit_bytes - self._written_bytes)]
        if head:
            self._times.mark(head, at_s)
            self._written_bytes += len(head)
            try:
                _write_all(self._file.fileno(), head)
            except OSError:  # a full disk ends the run elsewhere; the server must not wait for it
                self._limit_bytes = 0
                self._tail.push(head)
        if len(head) < len(data):
            self._tail.push(data[len(head) :])


class _LineTimes:
    """When lines began: for each piece of output, its first new line and the time it came."""

    def __init__(self) -> None:
        self._lines = array("Q")
        self._at_s = array("d")
        self._begun = 0
        self._fresh = True
        self._pieces = 0
        self._stride = 1

    def mark(self, data: bytes, at_s: float) -> None:
        begins = data.count(b"\n", 0, len(data) - 1) + self._fresh
        if begins:
            self._keep(self._begun + 1, at_s)
        self._begun += begins
        self._fresh = data.endswith(b"\n")

    def of(self, line: int) -> float | None:
        if not 1 <= line <= self._begun:
            return None
        return self._at_s[bisect.bisect_right(self._lines, line) - 1]

    def _keep(self, line: int, at_s: float) -> None:
        if self._pieces % self._stride == 0:
            self._lines.append(line)
            self._at_s.append(at_s)
        self._pieces += 1
        if len(self._lines) > MARKS:
            self._lines, self._at_s = self._lines[::2], self._at_s[::2]
            self._stride *= 2


class _Mask:
    """Replaces secrets in a stream, also those that come in two pieces."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names = {
            value.encode(): f"[{name}]".encode()
            for name, value in secrets.items()
            if len(value) >= SHORTEST_SECRET
        }
        self._held = b""

    def through(self, data: bytes) -> bytes:
        if not self._names:
            return data
        data = self._held + data
        for value, name in self._names.items():
            data = data.replace(value, name)
        held = max(_overlap(data, value) for value in self._names)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def rest(self) -> bytes:
        rest, self._held = self._held, b""
        return rest


class _Tail:
    """The last bytes of a stream, and how many went before them."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self.dropped_bytes = 0

    def push(self, data: bytes) -> None:
        self._pieces.append(data)
        self._held_bytes += len(data)
        while self._held_bytes - len(self._pieces[0]) >= self._size_bytes:
            dropped = len(self._pieces.popleft())
            self._held_bytes -= dropped
            self.dropped_bytes += dropped

    def kept(self) -> bytes:
        return b"".join(self._pieces)


def follow(source: int, log: LogFile) -> threading.Thread:
    """Start a thread that reads descriptor `source` into `log` to its end, then closes `source`."""
    thread = threading.Thread(target=_copy, args=(source, log), name="log", daemon=True)
    thread.start()
    return thread


def _copy(source: int, log: LogFile) -> None:
    with os.fdopen(source, "rb", buffering=0) as stream:
        while data := stream.read(READ_BYTES):
            log.take(data)


def _overlap(data: bytes, value: bytes) -> int:
    """Return the length of the longest end of `data` that is a beginning of `value`."""
    longest = min(len(data), len(value) - 1)
    return next((n for n in range(longest, 0, -1) if data.endswith(value[:n])), 0)


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
