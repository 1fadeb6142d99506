"""Requests in flight: begun on a connection, written, answered, ended."""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Callable
from typing import Final

from runner.load.connection import READ_BYTES, Connection
from runner.load.feed import Errand
from runner.load.http1 import Malformed
from runner.load.lags import Lags
from runner.load.pool import Pool
from runner.load.spool import Read

ANSWER_BYTES: Final = 64 << 20
"""More than this is no answer: 100,000 tokens with their usage are half as long."""

Ended = Callable[[Errand, int, str, list[Read]], None]
"""Told of every end: the request, when it was sent (0: never), how it ended, its reads."""

Sent = Callable[[Errand, int], None]
"""Told of every send: the request and when."""


class Flight:
    """The requests in flight and their connections.

    How a request ended is `complete` (the framing says so), `closed` (by the server), or an outcome
    of `Timeline` with its detail after a colon.

    Attributes:
        requests: connections by the request they carry, oldest request first.
        answering: connections by descriptor whose request is written whole: only their bytes come.
        sending: how long the first write of each request took.
    """

    __slots__ = ("_epoll", "_on_end", "_on_sent", "_pool", "_space_bytes", "answering", "requests",
                 "sending")  # fmt: skip

    def __init__(
        self, pool: Pool, epoll: select.epoll, space_bytes: int, on_sent: Sent, on_end: Ended
    ) -> None:
        self._pool = pool
        self._epoll = epoll
        self._space_bytes = space_bytes
        self._on_sent = on_sent
        self._on_end = on_end
        self.requests: dict[int, Connection] = {}
        self.answering: dict[int, Connection] = {}
        self.sending = Lags()

    def __len__(self) -> int:
        return len(self.requests)

    def start(self, errand: Errand, now_ns: int) -> None:
        """Begin a request, on a connection at hand or a new one."""
        connection = self._pool.take(now_ns)
        if connection is None:
            try:
                connection = self._pool.open()
            except OSError as error:
                self._on_end(errand, 0, f"refused:{error}", [])
                return
        connection.begin(errand, now_ns)
        self.requests[errand.number] = connection
        if connection.open:
            self._send(connection, errand)

    def attend(self, connection: Connection, event: int, since_ns: int) -> None:
        """Deal with an event of a connection that is not just answering."""
        if not connection.open:
            self._open(connection)
        elif connection.errand is None:
            if not connection.is_quiet():
                self._pool.drop(connection)
        elif event & ~select.EPOLLOUT and self._receive(connection, since_ns):
            self.look(connection, since_ns)
        elif event & select.EPOLLOUT and connection.errand is not None:
            self._push(connection)

    def _open(self, connection: Connection) -> None:
        try:
            if not self._pool.go_on(connection):
                return
        except OSError as error:
            if connection.errand is not None:
                self.finish(connection, f"refused:{error}")
            return
        if connection.errand is None:
            self._pool.give_back(connection, time.monotonic_ns())
        else:
            self._send(connection, connection.errand)

    def _send(self, connection: Connection, errand: Errand) -> None:
        """Begin to write the request of a connection that is open."""
        connection.sent_ns = sent_ns = time.monotonic_ns()
        self._push(connection)
        self.sending.add((time.monotonic_ns() - sent_ns,))
        self._on_sent(errand, sent_ns)

    def _push(self, connection: Connection) -> None:
        """Write what the socket takes; an answer may come before all is written."""
        done = connection.push()
        if done:
            self.answering[connection.fd] = connection
        if done == connection.partial:
            connection.partial = not done
            self._epoll.modify(connection.fd, select.EPOLLIN | (0 if done else select.EPOLLOUT))

    def _receive(self, connection: Connection, since_ns: int) -> bool:
        """Read once; return whether there was something to read."""
        try:
            data, stamp, _, _ = connection.receive(READ_BYTES, self._space_bytes)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            self.finish(connection, f"reset:{error}")
            return False
        connection.reads.append((time.monotonic_ns(), since_ns, stamp, data))
        return True

    def look(self, connection: Connection, since_ns: int) -> None:
        """See whether an answer is whole; read on where epoll cannot tell that there is more."""
        while True:
            if not connection.reads[-1][3]:
                connection.reads.pop()
                self.finish(connection, "closed")
                return
            try:
                if connection.ended():
                    self.finish(connection, "complete")
                    return
            except Malformed as error:
                self.finish(connection, f"malformed:{error}")
                return
            if not connection.more() or not self._receive(connection, since_ns):
                return

    def finish(self, connection: Connection, ended: str) -> None:
        """End the request of a connection."""
        errand, connection.errand = connection.errand, None
        self.answering.pop(connection.fd, None)
        written = not connection.partial and not connection.broken
        if ended == "complete" and connection.keep_alive and written:
            self._pool.give_back(connection, time.monotonic_ns())
        else:
            self._pool.drop(connection)
        if errand is not None:
            del self.requests[errand.number]
            self._on_end(errand, connection.sent_ns, ended, connection.reads)

    def expire(self, now_ns: int, timeout_ns: int) -> None:
        """End the requests that began too long ago."""
        while self.requests:
            oldest = next(iter(self.requests.values()))
            if now_ns - oldest.begun_ns < timeout_ns:
                return
            self.finish(oldest, f"timeout:no answer within {timeout_ns / 1e9:g} s")

    def cancel(self, why: str) -> None:
        """End all requests."""
        for connection in list(self.requests.values()):
            self.finish(connection, f"cancelled:{why}")

    def take_long(self, reads: int) -> list[tuple[Errand, int, list[Read]]]:
        """Take the reads so far of the requests that have at least so many, with their sends."""
        taken = []
        for connection in list(self.requests.values()):
            errand = connection.errand
            if errand is None or len(connection.reads) < reads:
                continue
            if connection.overflows(ANSWER_BYTES):
                self.finish(connection, f"malformed:an answer of over {ANSWER_BYTES >> 20} MiB")
                continue
            try:
                taken.append((errand, connection.sent_ns, connection.take_reads()))
            except Malformed as error:
                self.finish(connection, f"malformed:{error}")
        return taken
