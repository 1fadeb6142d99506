"""Raw reads on their way from the measured thread to the process that parses them.

The worker appends records to segment files and never waits; the parser follows, deletes every
segment it has read, and so keeps the spool small. A long answer comes as several records.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEAD: Final = struct.Struct("<IqqqqHHIIB")
_ENDED, _WARMUP, _LAST = 1, 2, 4
SEGMENT_BYTES: Final = 16 << 20
SEGMENTS_LIMIT: Final = 256
_NO_STAMP: Final = bytes(16)

Read = tuple[int, int, Sequence[tuple[int, int, bytes]], bytes]
"""One read as the loop keeps it: own stamp, `since`, the kernel's control messages, the bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Reads of one request, oldest first. Times are CLOCK_MONOTONIC nanoseconds.

    Attributes:
        number: number of the request.
        warmup: it belongs to the warm-up.
        due_ns: when it was due, negative in closed loop.
        sent_ns: just before it was written; 0 when it never was.
        ended_ns: when the answer or the wait for it ended; meaningless unless `ended`.
        offset_ns: realtime minus monotonic, to map the kernel's stamps.
        asked: as `feed.asked_of` packed it.
        ended: how it ended, as `Answer.verdict` takes it; empty when more records follow.
        own_ns: the worker's own stamp of each read.
        since_ns: nothing of the read had arrived before this.
        kernel_ns: the kernel's stamp mapped onto the monotonic clock, 0 where there is none.
        sizes: bytes of each read.
        data: the bytes of all reads.
    """

    number: int
    warmup: bool
    due_ns: int
    sent_ns: int
    ended_ns: int
    offset_ns: int
    asked: bytes
    ended: str
    own_ns: array[int]
    since_ns: array[int]
    kernel_ns: array[int]
    sizes: array[int]
    data: bytes


class Writer:
    """Appends records to the segments of one worker."""

    __slots__ = ("_fd", "_folder", "_size_bytes", "behind", "segment")

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.segment = -1
        self._fd = -1
        self._size_bytes = SEGMENT_BYTES
        self.behind = False

    def write(
        self,
        *,
        number: int,
        warmup: bool,
        due_ns: int,
        sent_ns: int,
        ended_ns: int,
        offset_ns: int,
        asked: bytes,
        ended: str,
        reads: Sequence[Read],
    ) -> None:
        """Append one record."""
        own, since, control, pieces = zip(*reads, strict=True) if reads else ((), (), (), ())
        data = b"".join(pieces)
        said = ended.encode()[:1000]
        parts = [
            _HEAD.pack(
                number, due_ns, sent_ns, ended_ns, offset_ns, len(asked), len(said), len(reads),
                len(data), warmup,
            ),
            asked,
            said,
            array("q", own).tobytes(),
            array("q", since).tobytes(),
            b"".join([message[0][2] if message else _NO_STAMP for message in control]),
            array("I", map(len, pieces)).tobytes(),
            data,
        ]  # fmt: skip
        self._append(b"".join(parts))

    def _append(self, record: bytes) -> None:
        if self._size_bytes >= SEGMENT_BYTES:
            self._turn()
        left = memoryview(record)
        while left:
            left = left[os.write(self._fd, left) :]
        self._size_bytes += len(record)

    def _turn(self) -> None:
        """Begin the next segment; the finished one is marked by the next one's existence."""
        if self._fd >= 0:
            os.close(self._fd)
        self.segment += 1
        self._size_bytes = 0
        self._fd = os.open(_path(self._folder, self.segment), os.O_WRONLY | os.O_CREAT, 0o600)
        oldest = self.segment - SEGMENTS_LIMIT
        self.behind = oldest >= 0 and _path(self._folder, oldest).exists()

    def close(self) -> None:
        """Write the end of the spool."""
        self._turn()
        os.close(self._fd)
        (self._folder / "end").touch()


class Reader:
    """Follows the segments of one worker."""

    __slots__ = ("_buffer", "_fd", "_folder", "_segment")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segment = 0
        self._fd = -1
        self._buffer = bytearray()

    def records(self) -> Iterator[Record]:
        """Yield the records that are there now; call again later for more."""
        while True:
            found = self._complete()
            while found:
                yield found
                found = self._complete()
            if not self._more():
                return

    def ended(self) -> bool:
        """Return whether the writer has ended; what it wrote before may still be unread."""
        return (self._folder / "end").exists()

    def _more(self) -> bool:
        if self._fd < 0:
            try:
                self._fd = os.open(_path(self._folder, self._segment), os.O_RDONLY)
            except FileNotFoundError:
                return False
        following = _path(self._folder, self._segment + 1).exists()
        data = os.read(self._fd, 1 << 20)
        self._buffer += data
        if not data and following:
            os.close(self._fd)
            _path(self._folder, self._segment).unlink()
            self._fd, self._segment = -1, self._segment + 1
        return bool(data) or following

    def _complete(self) -> Record | None:
        if len(self._buffer) < _HEAD.size:
            return None
        fields = _HEAD.unpack_from(self._buffer)
        asked, said, count, size = fields[5:9]
        end = _HEAD.size + asked + said + count * 36 + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        return _record(fields, body)


def _record(fields: tuple[int, ...], body: bytes) -> Record:
    number, due_ns, sent_ns, ended_ns, offset_ns, asked, said, count, _, warmup = fields
    at = asked + said
    stamps = array("q", body[at + count * 16 : at + count * 32])
    pairs = zip(stamps[::2], stamps[1::2], strict=True)
    return Record(
        number=number,
        warmup=bool(warmup),
        due_ns=due_ns,
        sent_ns=sent_ns,
        ended_ns=ended_ns,
        offset_ns=offset_ns,
        asked=body[:asked],
        ended=body[asked:at].decode("utf-8", "replace"),
        own_ns=array("q", body[at : at + count * 8]),
        since_ns=array("q", body[at + count * 8 : at + count * 16]),
        kernel_ns=array("q", [s * 1_000_000_000 + ns - offset_ns if s else 0 for s, ns in pairs]),
        sizes=array("I", body[at + count * 32 : at + count * 36]),
        data=body[at + count * 36 :],
    )


def _path(folder: Path, segment: int) -> Path:
    return folder / f"{segment:06d}.raw"
