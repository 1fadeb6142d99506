"""The measured thread: one process, one epoll loop, as little work per read as Python can do.

It sends requests that come ready through a pipe, stamps and keeps every read, and appends finished
requests to a spool. It parses no JSON, shares nothing with other workers, and collects no garbage.
"""

from __future__ import annotations

import gc
import json
import os
import select
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from runner.load.clocks import Timer
from runner.load.connection import READ_BYTES, Connection, space_bytes
from runner.load.feed import Errand, Feed
from runner.load.http1 import Malformed
from runner.load.lags import Lags
from runner.load.pool import Pool, resolve
from runner.load.pulse import Pulse
from runner.load.spool import Read, Writer

_SLEPT_NS: Final = 50_000
_COOL_NS: Final = 100_000_000
_AHEAD_BYTES: Final = 256 << 20
_LONG_READS: Final = 256
_WAVE: Final = 1024
_WARMING: Final = 16
_AHEAD: Final = 4096
_OPENINGS: Final = 64
_MAX_EVENTS: Final = 512

Finished = tuple[Errand, int, int, str, list[Read]]


class Worker:
    """The loop, the requests in flight and those to come."""

    def __init__(self, config: Mapping[str, Any], feed: Feed, control: socket.socket) -> None:
        self.closed_loop: bool = config["closed_loop"]
        self.cap: int = config["cap"]
        self.timeout_ns: int = config["timeout_ns"]
        self.duration_ns: int | None = config["duration_ns"]
        self.opens_after_ns: int = config["opens_after_ns"]
        tls = ssl.create_default_context() if config["tls"] else None
        self.epoll = select.epoll()
        self.pool = Pool(resolve(config["host"], config["port"]), config["host"], tls, self.epoll)
        self.pool.reserve = config["reserve"]
        self.space_bytes = space_bytes(tls)
        self.feed = feed
        self.control = control
        self.spool = Writer(Path(config["spool"]))
        self.pulse = Pulse()
        self.timer = Timer()
        self.queue: deque[Errand] = deque()
        self.queued_bytes = 0
        self.feeding = True
        self.flying: dict[int, Connection] = {}
        self.finished: deque[Finished] = deque()
        self.freed_ns: deque[int] = deque()
        self.turnaround = Lags()
        self.pumping = False
        self.behind = False
        self.origin_ns: int | None = None
        self.end_ns: int | None = None
        self.cool_until_ns = 0
        self.ready = False
        self.cpu_from_ns = 0
        self.first_sent_ns = 0
        for fd in (feed.fd, control.fileno(), self.pulse.fd, self.timer.fd):
            self.epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        """Go on until every request has ended."""
        poll, clock, by_fd = self.epoll.poll, time.monotonic_ns, self.pool.by_fd
        out, space = select.EPOLLOUT, self.space_bytes
        woke_ns = clock()
        while not self._over():
            before_ns = clock()
            events = poll(0 if self.finished else -1, _MAX_EVENTS)
            last_ns, woke_ns = woke_ns, clock()
            since_ns = woke_ns if woke_ns - before_ns > _SLEPT_NS else last_ns
            for fd, event in events:
                connection = by_fd.get(fd)
                if connection is None or event & out or connection.errand is None:
                    self._attend(fd, event, woke_ns)
                    continue
                try:
                    data, stamp, _, _ = connection.receive(READ_BYTES, space)
                except (BlockingIOError, ssl.SSLWantReadError):
                    continue
                except OSError as error:
                    self._finish(connection, f"reset:{error}")
                    continue
                connection.reads.append((clock(), since_ns, stamp, data))
                if connection.careful or data[-4:] == b"\r\n\r\n" or len(data) < 4:
                    self._look(connection, since_ns)
            if self.finished and (not events or len(self.finished) > _WAVE):
                self._spool(*self.finished.popleft())

    def _look(self, connection: Connection, since_ns: int) -> None:
        """See whether an answer is whole; read on where epoll cannot tell that there is more."""
        while True:
            try:
                if not connection.reads[-1][3]:
                    connection.reads.pop()
                    return self._finish(connection, "closed")
                if connection.ended():
                    return self._finish(connection, "complete")
                if not connection.more():
                    return None
                data, stamp, _, _ = connection.receive(READ_BYTES, self.space_bytes)
            except Malformed as error:
                return self._finish(connection, f"malformed:{error}")
            except ssl.SSLWantReadError:
                return None
            except OSError as error:
                return self._finish(connection, f"reset:{error}")
            connection.reads.append((time.monotonic_ns(), since_ns, stamp, data))

    def _attend(self, fd: int, event: int, woke_ns: int) -> None:
        """Deal with everything that is not an answer's bytes."""
        connection = self.pool.by_fd.get(fd)
        if connection is not None:
            if connection.open and connection.errand is None:
                self.pool.drop(connection)
            elif not connection.open:
                self._open(connection)
            elif event & select.EPOLLOUT:
                self._push(connection)
        elif fd == self.pulse.fd:
            self._tick(woke_ns)
        elif fd == self.feed.fd:
            self._take_feed()
        elif fd == self.timer.fd:
            self.timer.expirations()
            self._pump()
        elif fd == self.control.fileno():
            self._obey()

    def _open(self, connection: Connection) -> None:
        errand = connection.errand
        try:
            if not self.pool.go_on(connection):
                return
        except OSError as error:
            if errand is not None:
                self._finish(connection, f"refused:{error}")
            return
        if errand is None:
            self.pool.give_back(connection, 0)
        else:
            self._send(connection)

    def _send(self, connection: Connection) -> None:
        """Begin to write the request of a connection that is open."""
        connection.sent_ns = time.monotonic_ns()
        if self.freed_ns:
            self.turnaround.add((connection.sent_ns - self.freed_ns.popleft(),))
        errand, duration_ns = connection.errand, self.duration_ns
        if self.end_ns is None and duration_ns is not None and errand and not errand.warmup:
            self.end_ns = connection.sent_ns + duration_ns
        self.first_sent_ns = self.first_sent_ns or connection.sent_ns
        self._push(connection)

    def _push(self, connection: Connection) -> None:
        try:
            done = connection.push()
        except OSError as error:
            self._finish(connection, f"reset:{error}")
            return
        if done == connection.partial:
            connection.partial = not done
            more = 0 if done else select.EPOLLOUT
            self.epoll.modify(connection.fd, select.EPOLLIN | more)

    def _pump(self) -> None:
        """Start what is due and has room."""
        if self.pumping:
            return
        self.pumping = True
        now_ns = time.monotonic_ns()
        room = self.cap if self.closed_loop or self.origin_ns else min(self.cap, _WARMING)
        while self.queue and len(self.flying) < room and now_ns >= self.cool_until_ns:
            due_ns = self._due_ns(self.queue[0])
            if due_ns is None:
                break
            if due_ns > now_ns:
                self.timer.arm(due_ns)
                break
            errand = self.queue.popleft()
            self.queued_bytes -= len(errand.wire)
            self._start(errand, now_ns)
        self.pumping = False
        self._want_feed()

    def _due_ns(self, errand: Errand) -> int | None:
        """Return when a request may go; None while the load has not begun."""
        if self.origin_ns is None:
            return 0 if errand.warmup and errand.due_ns < 0 and not self.closed_loop else None
        return self.origin_ns + max(errand.due_ns, 0)

    def _start(self, errand: Errand, now_ns: int) -> None:
        connection = self.pool.take(now_ns)
        if connection is None:
            try:
                connection = self.pool.open()
            except OSError as error:
                self._keep(errand, now_ns, f"refused:{error}", [])
                return
        connection.begin(errand, now_ns)
        self.flying[errand.number] = connection
        if connection.open:
            self._send(connection)

    def _keep(self, errand: Errand, sent_ns: int, ended: str, reads: list[Read]) -> None:
        """Leave a request that has ended to the spool."""
        now_ns = time.monotonic_ns()
        self.finished.append((errand, sent_ns, now_ns, ended, reads))
        if ended.startswith("refused") and self.closed_loop:
            self.cool_until_ns = now_ns + _COOL_NS
        elif self.closed_loop and sent_ns:
            self.freed_ns.append(now_ns)

    def _finish(self, connection: Connection, ended: str) -> None:
        """End the request of a connection and start what comes next."""
        errand, connection.errand = connection.errand, None
        if errand is not None:
            del self.flying[errand.number]
            self._keep(errand, connection.sent_ns, ended, connection.reads)
        if ended == "complete" and connection.keep_alive and not connection.out:
            self.pool.give_back(connection, time.monotonic_ns())
        else:
            self.pool.drop(connection)
        self._pump()

    def _tick(self, woke_ns: int) -> None:
        a_second = self.pulse.tick(woke_ns)
        while self.flying:
            oldest = next(iter(self.flying.values()))
            if woke_ns - oldest.begun_ns < self.timeout_ns:
                break
            self._finish(oldest, f"timeout:{self.timeout_ns / 1e9:g} s passed")
        if self.end_ns is not None and woke_ns >= self.end_ns:
            self._close_window(woke_ns)
        if not self.closed_loop or not self.ready:
            self.pool.fill(_OPENINGS)
        if not self.ready and self._is_ready():
            self.ready = True
            self._say({"ready": True})
        if a_second:
            self._spool_long()
        self._pump()

    def _is_ready(self) -> bool:
        fed = self.feed.ended or not self.feeding or len(self.queue) >= self.cap
        ahead = self.queue[0] if self.queue else None
        warm = self.closed_loop or not (self.flying or (ahead and ahead.due_ns < 0))
        return fed and warm and self.pool.filled()

    def _close_window(self, now_ns: int) -> None:
        """Start nothing more; what is in flight may end."""
        self._end_feed()
        while self.queue:
            errand = self.queue.popleft()
            due_ns = self._due_ns(errand)
            if not self.closed_loop and due_ns is not None and due_ns < now_ns:
                self._keep(errand, 0, "cancelled:still queued when the window closed", [])

    def _stop(self, why: str) -> None:
        """End everything now."""
        self._end_feed()
        self.queue.clear()
        for connection in list(self.flying.values()):
            self._finish(connection, f"cancelled:{why}")
        self.origin_ns = self.origin_ns or time.monotonic_ns()

    def _spool_long(self) -> None:
        """Write what long answers have brought so far, so that memory stays bounded."""
        for connection in list(self.flying.values()):
            errand = connection.errand
            if errand is None or len(connection.reads) < _LONG_READS:
                continue
            try:
                reads = connection.take_reads()
            except Malformed as error:
                self._finish(connection, f"malformed:{error}")
                continue
            self._spool(errand, connection.sent_ns, 0, "", reads)
        if self.spool.behind:
            self._stop("the answers could not be parsed as fast as they came")
            self.behind = True

    def _spool(
        self, errand: Errand, sent_ns: int, ended_ns: int, ended: str, reads: list[Read]
    ) -> None:
        self.spool.write(
            number=errand.number,
            warmup=errand.warmup,
            due_ns=errand.due_ns if self.origin_ns is None else self._intended_ns(errand),
            sent_ns=sent_ns,
            ended_ns=ended_ns,
            offset_ns=self.pulse.offset_ns,
            asked=errand.asked,
            ended=ended,
            reads=reads,
        )

    def _intended_ns(self, errand: Errand) -> int:
        return -1 if errand.due_ns < 0 or self.origin_ns is None else self.origin_ns + errand.due_ns

    def _take_feed(self) -> None:
        for errand in self.feed.read():
            self.queue.append(errand)
            self.queued_bytes += len(errand.wire)
        if self.feed.ended:
            self._end_feed()
        self._pump()

    def _want_feed(self) -> None:
        """Read the pipe only while there is room ahead."""
        most = _AHEAD if not self.closed_loop else max(2 * self.cap, 64)
        want = len(self.queue) < most and self.queued_bytes < _AHEAD_BYTES
        if want != self.feeding and not self.feed.ended:
            self.feeding = want
            if want:
                self.epoll.register(self.feed.fd, select.EPOLLIN)
            else:
                self.epoll.unregister(self.feed.fd)

    def _end_feed(self) -> None:
        if self.feeding:
            self.epoll.unregister(self.feed.fd)
        self.feed.ended = True
        self.feeding = False

    def _obey(self) -> None:
        """Do what the parent says; its silence for ever means that it is gone."""
        said = self.control.recv(1 << 16)
        for line in said.splitlines() or [b'{"stop": "the parent is gone"}']:
            order = json.loads(line)
            if "stop" in order:
                self._stop(order["stop"])
            elif self.origin_ns is None:
                self.origin_ns = order["open_ns"]
                self.cpu_from_ns = time.process_time_ns()
                if not self.closed_loop and self.duration_ns is not None:
                    self.end_ns = self.origin_ns + self.opens_after_ns + self.duration_ns
                self.timer.arm(self.origin_ns)

    def _say(self, what: Mapping[str, object]) -> None:
        self.control.sendall(json.dumps(what).encode() + b"\n")

    def _over(self) -> bool:
        return (
            self.feed.ended
            and self.origin_ns is not None
            and not (self.queue or self.flying or self.finished)
        )

    def report(self) -> dict[str, object]:
        """Return what the proof needs of this worker, as JSON takes it."""
        return {
            "cpu_ns": time.process_time_ns() - self.cpu_from_ns,
            "loop_delay": self.pulse.delay.plain(),
            "turnaround": self.turnaround.plain(),
            "clock_error_ns": self.pulse.clock_error_ns,
            "clock_steps": self.pulse.clock_steps,
            "connections": self.pool.opened,
            "first_sent_ns": self.first_sent_ns,
            "behind": self.behind,
            "end_ns": self.end_ns,
        }


def main() -> None:
    """Run one worker: settings in the first line of the feed, orders on the control socket."""
    config = json.loads(_first_line())
    if config["cpus"]:
        os.sched_setaffinity(0, config["cpus"])
    control = socket.socket(fileno=int(sys.argv[1]))
    worker = Worker(config, Feed(sys.stdin.fileno()), control)
    gc.collect()
    gc.freeze()
    gc.disable()
    worker.pulse.start(time.monotonic_ns())
    worker.run()
    worker.spool.close()
    Path(config["report"]).write_text(json.dumps(worker.report()))


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1)
    return line


if __name__ == "__main__":
    main()
