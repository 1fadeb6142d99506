"""Server-sent events in pieces of any size (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

import re
from typing import Final

from runner.load.http1 import Malformed

_LIMIT_BYTES: Final = 8 << 20
_LINE = re.compile(rb"\r\n|\n|\r")


class Events:
    """Cuts a byte stream into events and returns the data of each; comments carry none."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, payload: bytes) -> list[bytes]:
        """Return the data of every event that these bytes complete.

        Raises:
            Malformed: an event is longer than 8 MiB.
        """
        buffer = self._buffer + payload if self._buffer else payload
        if b"\r" in buffer:
            buffer = _unix(buffer)
        if b"\n\n" not in buffer:
            if len(buffer) > _LIMIT_BYTES:
                raise Malformed(f"an event longer than {_LIMIT_BYTES >> 20} MiB")
            self._buffer = buffer
            return []
        *blocks, self._buffer = buffer.split(b"\n\n")
        return [data for data in map(_data, blocks) if data is not None]

    def empty(self) -> bool:
        """Return whether nothing came after the last complete event."""
        return not self._buffer


def _unix(buffer: bytes) -> bytes:
    """Turn CRLF and CR into LF; a CR at the very end may be half of a CRLF and stays."""
    held = b"\r" if buffer.endswith(b"\r") else b""
    return _LINE.sub(b"\n", buffer[: len(buffer) - len(held)]) + held


def _data(block: bytes) -> bytes | None:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = [
        line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None
