"""HTTP/1.1 for one connection, no more than an engine's clients need, and quick about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import cast
from urllib.parse import parse_qsl, urlsplit

MARK = b"x-simulated: true\r\n"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    + MARK
    + b"transfer-encoding: chunked\r\n\r\n"
)
STREAM_END = b"0\r\n\r\n"


class Connection(asyncio.Protocol):
    """One client connection: parses requests, one at a time, and hands them on.

    Args:
        serve: called with the connection and a `method`, `path`, `query` and `body`; answers with
            `reply`, or `open_stream`, `write` and `close_stream`.
    """

    def __init__(
        self, serve: Callable[[Connection, str, str, dict[str, str], bytes], None]
    ) -> None:
        self._serve = serve
        self._received = bytearray()
        self._busy = False
        self._keep = True
        self.transport: asyncio.Transport | None = None
        self.peer = ""
        self.request_line = ""
        self.lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the other side."""
        self.transport = cast("asyncio.Transport", transport)
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.peer = f"{host}:{port}"

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever answers that nobody listens any more."""
        self.transport = None
        if self.lost is not None:
            self.lost()

    def data_received(self, data: bytes) -> None:
        """Take bytes; serve the request once it is whole."""
        self._received += data
        if not self._busy:
            self._next()

    def reply(self, body: bytes, status: int = 200, content_type: str = "application/json") -> None:
        """Answer at once."""
        phrase = HTTPStatus(status).phrase
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {content_type}\r\n"
            f"content-length: {len(body)}\r\n"
        )
        self.write(head.encode() + MARK + b"\r\n" + body)
        self._done()

    def open_stream(self) -> None:
        """Begin an answer of server-sent events."""
        self.write(STREAM_HEAD)

    def close_stream(self) -> None:
        """End an answer of server-sent events."""
        self.write(STREAM_END)
        self._done()

    def write(self, data: bytes) -> None:
        """Send bytes; nothing once the client is gone."""
        if self.transport is not None:
            self.transport.write(data)

    def drop(self) -> None:
        """Break the connection without a word."""
        if self.transport is not None:
            self.transport.abort()

    def _done(self) -> None:
        self._busy = False
        self.lost = None
        if not self._keep and self.transport is not None:
            self.transport.close()
        elif self._received:
            self._next()

    def _next(self) -> None:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._received[:end]).decode("latin-1")
        self.request_line, _, rest = head.partition("\r\n")
        words = self.request_line.split(" ")
        fields = dict(_field(text) for text in rest.split("\r\n") if ":" in text)
        length = fields.get("content-length", "0")
        if len(words) != 3 or not length.isdigit() or "transfer-encoding" in fields:
            self._refuse()
            return
        if fields.get("expect", "").lower() == "100-continue" and len(self._received) == end + 4:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        after = end + 4 + int(length)
        if len(self._received) < after:
            return
        body = bytes(self._received[end + 4 : after])
        del self._received[:after]
        self._busy = True
        self._keep = fields.get("connection", "").lower() != "close"
        parts = urlsplit(words[1])
        self._serve(self, words[0], parts.path, dict(parse_qsl(parts.query)), body)

    def _refuse(self) -> None:
        """Answer what is no request that this server reads: it wants a length, not chunks."""
        self._received.clear()
        self._keep = False
        self.reply(b'{"detail":"Bad Request"}', 400)


def _field(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip().lower(), value.strip()


def event(body: bytes) -> bytes:
    """Return one server-sent event as a chunk of the transfer encoding."""
    return b"%x\r\ndata: %b\n\n\r\n" % (len(body) + 8, body)
