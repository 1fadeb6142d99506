"""HTTP/1.1 answers in pieces of any size: heads and the three ways a body is framed (RFC 9112)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

_HEAD_LIMIT_BYTES: Final = 1 << 16
_SIZE, _DATA, _AFTER, _TRAILER = range(4)


class Malformed(ValueError):  # noqa: N818 - it names what the bytes are
    """The bytes are no HTTP/1.1 answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of a final answer.

    Attributes:
        status: status code.
        headers: by lower-case name.
        keep_alive: the connection may be used again after the body.
        rest: bytes after the head.
    """

    status: int
    headers: Mapping[str, str]
    keep_alive: bool
    rest: bytes


def head_of(data: bytes) -> Head | None:
    """Read the head at the start of `data`, interim (1xx) answers skipped; None when unfinished.

    Raises:
        Malformed: it is no HTTP/1.1 head, or longer than 64 KiB.
    """
    while True:
        block, mark, rest = data.partition(b"\r\n\r\n")
        if len(block) > _HEAD_LIMIT_BYTES:
            raise Malformed("a head longer than 64 KiB")
        if not mark:
            if not data.startswith(b"HTTP/1."[: len(data)]):
                raise Malformed(f"not an HTTP/1 answer: {data[:40]!r}")
            return None
        head = _head(block.decode("latin-1"), rest)
        if head.status >= 200:
            return head
        data = rest


def _head(text: str, rest: bytes) -> Head:
    status_line, *lines = text.split("\r\n")
    version, _, after = status_line.partition(" ")
    if not version.startswith("HTTP/1.") or not after[:3].isdigit():
        raise Malformed(f"not an HTTP/1 status line: {status_line[:60]!r}")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise Malformed(f"not a header: {line[:60]!r}")
        headers[name.strip().lower()] = value.strip()
    connection = headers.get("connection", "").lower()
    keeps = "close" not in connection and (version == "HTTP/1.1" or "keep-alive" in connection)
    return Head(status=int(after[:3]), headers=headers, keep_alive=keeps, rest=rest)


class Framing(Protocol):
    """Knows where a body ends."""

    finished: bool
    reusable: bool
    """The end is known without the connection being closed."""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the body and return the payload among them.

        Raises:
            Malformed: the framing is broken.
        """


def framing_of(head: Head) -> Framing:
    """Return the framing a head announces (RFC 9112, section 6.3).

    Raises:
        Malformed: its Content-Length is no number.
    """
    if head.headers.get("transfer-encoding", "").lower().endswith("chunked"):
        return Chunked()
    length = head.headers.get("content-length")
    if head.status in (204, 304):
        return Sized(0)
    if length is None:
        return UntilClosed()
    if not length.isdigit():
        raise Malformed(f"Content-Length: {length[:40]}")
    return Sized(int(length))


class UntilClosed:
    """The body ends with the connection."""

    __slots__ = ("finished", "reusable")

    def __init__(self) -> None:
        self.finished = False
        self.reusable = False

    def feed(self, data: bytes) -> bytes:
        """Return `data`: all of it is payload."""
        return data


class Sized:
    """The body has the length the head said."""

    __slots__ = ("_left_bytes", "finished", "reusable")

    def __init__(self, length_bytes: int) -> None:
        self._left_bytes = length_bytes
        self.finished = not length_bytes
        self.reusable = True

    def feed(self, data: bytes) -> bytes:
        """Return `data`; the body is finished when the promised length has come."""
        if len(data) > self._left_bytes:
            raise Malformed("more bytes than Content-Length promised")
        self._left_bytes -= len(data)
        self.finished = not self._left_bytes
        return data


class Chunked:
    """The body comes in chunks, each with its size before it (RFC 9112, section 7.1)."""

    __slots__ = ("_left_bytes", "_line", "_state", "finished", "reusable")

    def __init__(self) -> None:
        self._left_bytes = 0
        self._line = b""
        self._state = _SIZE
        self.finished = False
        self.reusable = True

    def feed(self, data: bytes) -> bytes:
        """Return the payload in the next bytes, which may be split anywhere."""
        pieces = []
        at = 0
        while at < len(data):
            if self.finished:
                raise Malformed("bytes after the last chunk")
            if self._state == _DATA:
                piece = data[at : at + self._left_bytes]
                pieces.append(piece)
                at += len(piece)
                self._left_bytes -= len(piece)
                if not self._left_bytes:
                    self._state = _AFTER
                continue
            end = data.find(b"\n", at)
            if end < 0:
                self._keep(data[at:])
                break
            line, self._line = self._line + data[at:end], b""
            at = end + 1
            self._take(line.rstrip(b"\r"))
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def between_chunks(self) -> bool:
        """Return whether the next byte begins a chunk."""
        return self._state == _SIZE and not self._line and not self.finished

    def _keep(self, part: bytes) -> None:
        self._line += part
        if len(self._line) > _HEAD_LIMIT_BYTES:
            raise Malformed("a chunk size longer than 64 KiB")

    def _take(self, line: bytes) -> None:
        if self._state == _AFTER:
            if line:
                raise Malformed(f"a chunk longer than its size: {line[:40]!r}")
            self._state = _SIZE
        elif self._state == _TRAILER:
            self.finished = not line
        else:
            self._left_bytes = _size_bytes(line)
            self._state = _DATA if self._left_bytes else _TRAILER


def _size_bytes(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise Malformed(f"not a chunk size: {line[:40]!r}")
    return int(digits, 16)
