"""One connection to the server under load: opened ahead, read with the kernel's stamps."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final

from runner.load.clocks import SO_TIMESTAMPNS, STAMP_SPACE_BYTES
from runner.load.feed import Errand
from runner.load.http1 import Framing, framing_of, head_of
from runner.load.spool import Read

READ_BYTES: Final = 1 << 16
_LAST_BYTES: Final = b"\n\n\r\n0\r\n\r\n"
"""End of an event, of its chunk and of the body: JSON holds no raw line feeds, so this is it."""

Address = tuple[int, tuple[object, ...]]
Receive = Callable[[int, int], tuple[bytes, Sequence[tuple[int, int, bytes]], int, object]]


class Connection:
    """A non-blocking socket and the request it carries.

    `careful` asks the loop to let `ended` look at every read; otherwise only reads that could hold
    the end of a chunked body need to be looked at.
    """

    __slots__ = (
        "_framing",
        "_head",
        "_name",
        "_tls",
        "_walked",
        "before_bytes",
        "begun_ns",
        "broken",
        "careful",
        "errand",
        "fd",
        "idle_since_ns",
        "keep_alive",
        "open",
        "out",
        "partial",
        "reads",
        "receive",
        "sent_ns",
        "sock",
    )

    def __init__(self, address: Address, tls: ssl.SSLContext | None, name: str) -> None:
        family, where = address
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.open = False
        self.partial = False
        self.errand: Errand | None = None
        self.idle_since_ns = 0
        self.out = memoryview(b"")
        self.fd = sock.fileno()
        self.sock: socket.socket | ssl.SSLSocket = sock
        try:
            sock.connect(where)
        except BlockingIOError:
            pass
        except OSError:
            sock.close()
            raise
        self.receive: Receive = sock.recvmsg
        self._tls = tls
        self._name = name
        self._reset()

    def _reset(self) -> None:
        self.reads: list[Read] = []
        self.before_bytes = 0
        self.begun_ns = 0
        self.sent_ns = 0
        self.careful = True
        self.keep_alive = False
        self.broken = False
        self._head = b""
        self._framing: Framing | None = None
        self._walked = 0

    def begin(self, errand: Errand, now_ns: int) -> None:
        """Take a request to carry; it is written by `push`."""
        self._reset()
        self.begun_ns = now_ns
        self.errand = errand
        self.out = memoryview(errand.wire)

    def push(self) -> bool:
        """Write what the socket takes now; return whether nothing is left to write.

        When the connection broke nothing is left either: what the server said before is still to be
        read, and the break is found behind it.
        """
        while self.out:
            try:
                self.out = self.out[self.sock.send(self.out) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return False
            except OSError:
                self.out = memoryview(b"")
                self.broken = True
        return True

    def shake(self) -> bool:
        """Go on with connecting; return whether the connection is ready for a request.

        Raises:
            OSError: it could not be made.
        """
        error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "connect")
        if self._tls is not None and not self._shake_hands(self._tls):
            return False
        self.open = True
        return True

    def _shake_hands(self, tls: ssl.SSLContext) -> bool:
        if not isinstance(self.sock, ssl.SSLSocket):
            secure = tls.wrap_socket(
                self.sock, server_hostname=self._name, do_handshake_on_connect=False
            )
            self.sock = secure
            self.receive = lambda size, _: (secure.recv(size), (), 0, None)
        try:
            self.sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def is_quiet(self) -> bool:
        """Return whether an idle connection has neither ended nor brought anything."""
        try:
            self.receive(1, 0)
        except (BlockingIOError, ssl.SSLWantReadError):
            # TLS 1.3 sends session tickets after the handshake: bytes, but no data
            return True
        except OSError:
            return False
        return False

    def more(self) -> bool:
        """Return whether decrypted bytes wait inside the TLS layer, where epoll cannot see them."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0

    def ended(self) -> bool:
        """Return whether the reads so far hold the whole answer.

        Raises:
            Malformed: they are no HTTP/1.1 answer.
        """
        data = self.reads[-1][3]
        if self._framing is None:
            self._head += data
            self._walked = len(self.reads)
            head = head_of(self._head)
            if head is None:
                return False
            self.keep_alive = head.keep_alive
            self._framing = framing_of(head)
            self._head, data = b"", head.rest
            self._framing.feed(data)
            self.careful = not head.headers.get("transfer-encoding", "")
            return self._finished()
        if not self.careful and len(self.reads) > 1:
            tail = self.reads[-2][3][-len(_LAST_BYTES) :] + data
            if tail.endswith(_LAST_BYTES):
                return True
        for read in self.reads[self._walked :]:
            self._framing.feed(read[3])
        self._walked = len(self.reads)
        return self._finished()

    def _finished(self) -> bool:
        if self._framing is None or not self._framing.finished:
            return False
        self.keep_alive = self.keep_alive and self._framing.reusable
        return True

    def take_reads(self) -> list[Read]:
        """Return the reads so far and forget them; the end of the answer is still found."""
        if self._framing is not None:
            for read in self.reads[self._walked :]:
                self._framing.feed(read[3])
        reads, self.reads, self._walked = self.reads, [], 0
        self.before_bytes += sum(len(read[3]) for read in reads)
        return reads

    def overflows(self, limit_bytes: int) -> bool:
        """Return whether the answer is longer than that; what is over it is dropped then."""
        left_bytes = limit_bytes - self.before_bytes
        for number, read in enumerate(self.reads):
            left_bytes -= len(read[3])
            if left_bytes < 0:
                del self.reads[number:]
                return True
        return False

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()


def space_bytes(tls: ssl.SSLContext | None) -> int:
    """Return the room a read needs for its control message."""
    return 0 if tls else STAMP_SPACE_BYTES
