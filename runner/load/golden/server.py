"""The golden server's loop: one thread, one epoll, a heap of what is due."""

from __future__ import annotations

import heapq
import itertools
import random
import select
import socket
import struct
import time
from array import array
from collections.abc import Callable
from typing import BinaryIO, Final

from runner.load import Timeline, shard
from runner.load.clocks import SO_TIMESTAMPNS, STAMP_SPACE_BYTES, Timer, mapping
from runner.load.golden import Every, Plan, plan_for
from runner.load.golden.request import length_bytes, page, read_body
from runner.load.golden.script import Script, script_of

_READ_BYTES: Final = 1 << 18
_BATCH: Final = 128


class _Line:
    """One connection and the answer it is being given."""

    __slots__ = (
        "at", "backlog", "base_ns", "fd", "heard", "number", "received_ns", "script", "sent_ns",
        "sock", "wanted",
    )  # fmt: skip

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.fd = sock.fileno()
        self.heard: list[bytes] = []
        self.wanted = 0
        self.script: Script | None = None
        self.at = 0
        self.base_ns = 0
        self.received_ns = 0
        self.number = 0
        self.sent_ns = array("q")
        self.backlog = b""


class Server:
    """Serves until told to stop.

    Args:
        sock: a listening socket.
        plan: how requests are answered.
        everys: exceptions to it, by the request's number.
        seed: of the jitter.
        truth: file for what really happened, in the format of `runner.load.shard`: `sent_ns` is
            when the kernel received the whole request, `chunk_ns` when each chunk was sent.
    """

    def __init__(
        self,
        sock: socket.socket,
        plan: Plan,
        everys: tuple[Every, ...] = (),
        seed: int = 0,
        truth: BinaryIO | None = None,
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._sock = sock
        self._plan = plan
        self._everys = everys
        self._random = random.Random(seed)  # noqa: S311 - jitter, no secret
        self._truth = truth
        self._epoll = select.epoll()
        self._timer = Timer()
        self._lines: dict[int, _Line] = {}
        self._due: list[tuple[int, int, _Line]] = []
        self._order = itertools.count()
        self._offset_ns = mapping().offset_ns
        self.requests = 0
        self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._epoll.register(self._timer.fd, select.EPOLLIN)

    def serve(self, stop: Callable[[], bool]) -> None:
        """Serve until `stop` says so; it is asked at least every 0.1 s."""
        armed_ns = 0
        while not stop():
            ahead_ns = self._send_due()
            if ahead_ns and ahead_ns != armed_ns:
                self._timer.arm(ahead_ns)
                armed_ns = ahead_ns
            busy = ahead_ns and ahead_ns <= time.monotonic_ns()
            for fd, event in self._epoll.poll(0 if busy else 0.1, 512):
                line = self._lines.get(fd)
                if line is not None:
                    self._hear(line, event)
                elif fd == self._timer.fd:
                    self._timer.expirations()
                else:
                    self._accept()

    def _send_due(self) -> int:
        """Send up to a batch of what is due; return when the next piece is, 0 for never."""
        due, clock = self._due, time.monotonic_ns
        for _ in range(_BATCH):
            if not due or due[0][0] > clock():
                break
            line = due[0][2]
            script = line.script
            if script is None:
                heapq.heappop(due)
                continue
            at = line.at
            data = script.writes[at]
            if script.tokens[at]:
                line.sent_ns.append(clock())
            try:
                sent = line.sock.send(data) if not line.backlog else 0
            except BlockingIOError:
                sent = 0
            except OSError:
                self._drop(line)
                heapq.heappop(due)
                continue
            if sent != len(data):
                self._hold(line, data[sent:])
            line.at = at + 1
            if line.at < len(script.writes):
                next_ns = line.base_ns + script.due_ns[line.at]
                heapq.heapreplace(due, (next_ns, next(self._order), line))
            else:
                heapq.heappop(due)
                self._end(line, script)
        return due[0][0] if due else 0

    def _hold(self, line: _Line, data: bytes) -> None:
        """Keep what the socket did not take."""
        if not line.backlog:
            self._epoll.modify(line.fd, select.EPOLLIN | select.EPOLLOUT)
        line.backlog += data

    def _accept(self) -> None:
        for _ in range(64):
            try:
                sock, _ = self._sock.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            line = _Line(sock)
            self._lines[line.fd] = line
            self._epoll.register(line.fd, select.EPOLLIN)

    def _hear(self, line: _Line, event: int) -> None:
        if event & select.EPOLLOUT:
            self._relieve(line)
        if not event & ~select.EPOLLOUT:
            return
        try:
            data, control, _, _ = line.sock.recvmsg(_READ_BYTES, STAMP_SPACE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(line)
            return
        line.heard.append(data)
        line.wanted -= len(data)
        if line.wanted <= 0:
            line.received_ns = self._stamp_ns(control[0][2] if control else b"")
            self._read(line)

    def _relieve(self, line: _Line) -> None:
        try:
            line.backlog = line.backlog[line.sock.send(line.backlog) :]
        except BlockingIOError:
            return
        except OSError:
            self._drop(line)
            return
        if not line.backlog:
            self._epoll.modify(line.fd, select.EPOLLIN)

    def _stamp_ns(self, stamp: bytes) -> int:
        if not stamp:
            return time.monotonic_ns()
        seconds, nanoseconds = struct.unpack("qq", stamp)
        return int(seconds * 1_000_000_000 + nanoseconds - self._offset_ns)

    def _read(self, line: _Line) -> None:
        """Begin to answer when the request is whole."""
        data = b"".join(line.heard)
        head, mark, body = data.partition(b"\r\n\r\n")
        line.heard = [data]
        length = length_bytes(head) if mark else 0
        if not mark or len(body) < length:
            line.wanted = length - len(body) if mark else 0
            return
        line.heard, line.wanted = [], 0
        method, path, *_ = head.decode("latin-1").split(" ", 2)
        if method != "POST" or not path.endswith("/completions"):
            line.sock.send(page(path))
            return
        self._answer(line, body, chat=path.endswith("/chat/completions"))

    def _answer(self, line: _Line, body: bytes, *, chat: bool) -> None:
        self.requests += 1
        asked, changes, number = read_body(body, chat=chat)
        plan = plan_for(self.requests, self._plan, self._everys)
        plan = plan.but(changes) if changes else plan
        script = script_of(plan, asked)
        line.number = self.requests - 1 if number is None else number
        line.script, line.at = script, 0
        line.sent_ns = array("q")
        line.base_ns = line.received_ns
        if plan.jitter_s:
            line.base_ns += round(self._random.uniform(0, plan.jitter_s) * 1e9)
        if plan.split_bytes:
            line.script = script = _split(script, plan.split_bytes)
        if script.writes:
            first_ns = line.received_ns + script.due_ns[0]
            heapq.heappush(self._due, (first_ns, next(self._order), line))
        elif script.ending != "silent":
            self._end(line, script)

    def _end(self, line: _Line, script: Script) -> None:
        self._record(line, script)
        line.script = None
        if script.ending == "reset":
            line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if script.ending in ("reset", "close"):
            self._drop(line)

    def _record(self, line: _Line, script: Script) -> None:
        if self._truth is None:
            return
        tokens = array("I", filter(None, script.tokens[: line.at]))
        truth = Timeline(
            request=line.number,
            sent_ns=line.received_ns,
            ended_ns=time.monotonic_ns(),
            stamp="kernel",
            output_tokens=sum(tokens),
            detail=script.ending,
        )
        shard.write(self._truth, truth, line.sent_ns, tokens[: len(line.sent_ns)])

    def _drop(self, line: _Line) -> None:
        """Forget a connection; what it was still owed is not sent."""
        if self._lines.pop(line.fd, None) is None:
            return
        if line.script is not None:
            self._record(line, line.script)
        line.script = None
        self._epoll.unregister(line.fd)
        line.sock.close()


def _split(script: Script, size: int) -> Script:
    """Cut every write into pieces; a write's tokens count with its last piece."""
    due_ns: list[int] = []
    writes: list[bytes] = []
    tokens: list[int] = []
    for due, data, count in zip(script.due_ns, script.writes, script.tokens, strict=True):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        due_ns += [due] * len(pieces)
        writes += pieces
        tokens += [0] * (len(pieces) - 1) + [count]
    return Script(
        due_ns=tuple(due_ns), writes=tuple(writes), tokens=tuple(tokens), ending=script.ending
    )
