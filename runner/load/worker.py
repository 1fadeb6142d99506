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
from runner.load.priority import be_prompt
from runner.load.pulse import Pulse
from runner.load.schedule import Schedule
from runner.load.spool import Read, Writer

_SLEPT_NS: Final = 50_000
_LONG_READS: Final = 256
_WAVE: Final = 1024
_OPENINGS: Final = 64
_MAX_EVENTS: Final = 512
_FILL_LIMIT_S: Final = 5.0

Finished = tuple[Errand, int, int, str, list[Read]]


class Worker:
    """The loop and the requests in flight."""

    def __init__(self, config: Mapping[str, Any], feed: Feed, control: socket.socket) -> None:
        tls = ssl.create_default_context() if config["tls"] else None
        self.schedule = Schedule(
            closed_loop=config["closed_loop"],
            cap=config["cap"],
            duration_ns=config["duration_ns"],
            opens_after_ns=config["opens_after_ns"],
        )
        self.timeout_ns: int = config["timeout_ns"]
        self.epoll = select.epoll()
        self.pool = Pool(resolve(config["host"], config["port"]), config["host"], tls, self.epoll)
        self.pool.reserve = config["reserve"]
        self.space_bytes = space_bytes(tls)
        self.spool = Writer(Path(config["spool"]))
        self.pulse = Pulse()
        self.timer = Timer()
        self.feed = feed
        self.feeding = True
        self.control = control
        self.flying: dict[int, Connection] = {}
        self.answering: dict[int, Connection] = {}
        self.finished: deque[Finished] = deque()
        self.freed_ns: deque[int] = deque()
        self.turnaround = Lags()
        self.sending = Lags()
        self.pumping = False
        self.ready = False
        self.behind = False
        self.cpu_from_ns = 0
        self.first_sent_ns = 0
        for fd in (feed.fd, control.fileno(), self.pulse.fd, self.timer.fd):
            self.epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        """Go on until every request has ended."""
        poll, clock, answering = self.epoll.poll, time.monotonic_ns, self.answering
        space = self.space_bytes
        woke_ns = clock()
        self.pulse.start(woke_ns)
        while not self._over():
            before_ns = clock()
            events = poll(0 if self.finished else -1, _MAX_EVENTS)
            last_ns, woke_ns = woke_ns, clock()
            since_ns = woke_ns if woke_ns - before_ns > _SLEPT_NS else last_ns
            for fd, event in events:
                connection = answering.get(fd)
                if connection is None:
                    self._attend(fd, event, since_ns)
                    continue
                # the same as _receive, spelled out: this is done for every token
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

    def _receive(self, connection: Connection, since_ns: int) -> bool:
        """Read once; return whether there was something to read."""
        try:
            data, stamp, _, _ = connection.receive(READ_BYTES, self.space_bytes)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError as error:
            self._finish(connection, f"reset:{error}")
            return False
        connection.reads.append((time.monotonic_ns(), since_ns, stamp, data))
        return True

    def _look(self, connection: Connection, since_ns: int) -> None:
        """See whether an answer is whole; read on where epoll cannot tell that there is more."""
        while True:
            if not connection.reads[-1][3]:
                connection.reads.pop()
                self._finish(connection, "closed")
                return
            try:
                if connection.ended():
                    self._finish(connection, "complete")
                    return
            except Malformed as error:
                self._finish(connection, f"malformed:{error}")
                return
            if not connection.more() or not self._receive(connection, since_ns):
                return

    def _attend(self, fd: int, event: int, since_ns: int) -> None:
        """Deal with everything that is not the bytes of an answer."""
        connection = self.pool.by_fd.get(fd)
        if connection is not None:
            self._attend_connection(connection, event, since_ns)
        elif fd == self.pulse.fd:
            self._tick(time.monotonic_ns())
        elif fd == self.feed.fd:
            self._take_feed()
        elif fd == self.timer.fd:
            self.timer.expirations()
            self._pump()
        elif fd == self.control.fileno():
            self._obey()

    def _attend_connection(self, connection: Connection, event: int, since_ns: int) -> None:
        if not connection.open:
            self._open(connection)
        elif connection.errand is None:
            if not connection.is_quiet():
                self.pool.drop(connection)
        elif event & ~select.EPOLLOUT and self._receive(connection, since_ns):
            self._look(connection, since_ns)
        elif event & select.EPOLLOUT and connection.errand is not None:
            self._push(connection)

    def _open(self, connection: Connection) -> None:
        try:
            if not self.pool.go_on(connection):
                return
        except OSError as error:
            if connection.errand is not None:
                self._finish(connection, f"refused:{error}")
            return
        if connection.errand is None:
            self.pool.give_back(connection, 0)
        else:
            self._send(connection, connection.errand)

    def _send(self, connection: Connection, errand: Errand) -> None:
        """Begin to write the request of a connection that is open."""
        connection.sent_ns = sent_ns = time.monotonic_ns()
        self._push(connection)
        self.sending.add((time.monotonic_ns() - sent_ns,))
        if self.freed_ns:
            self.turnaround.add((sent_ns - self.freed_ns.popleft(),))
        self.schedule.note_sent(errand, sent_ns)
        self.first_sent_ns = self.first_sent_ns or sent_ns

    def _push(self, connection: Connection) -> None:
        """Write what the socket takes; an answer may come before all is written."""
        done = connection.push()
        if done:
            self.answering[connection.fd] = connection
        if done == connection.partial:
            connection.partial = not done
            self.epoll.modify(connection.fd, select.EPOLLIN | (0 if done else select.EPOLLOUT))

    def _pump(self) -> None:
        """Start what is due and has room."""
        if self.pumping:
            return
        self.pumping = True
        now_ns = time.monotonic_ns()
        while errand := self.schedule.next(now_ns, len(self.flying)):
            self._start(errand, now_ns)
        if self.schedule.wake_ns:
            self.timer.arm(self.schedule.wake_ns)
        self.pumping = False
        self._want_feed()

    def _start(self, errand: Errand, now_ns: int) -> None:
        connection = self.pool.take(now_ns)
        if connection is None:
            try:
                connection = self.pool.open()
            except OSError as error:
                self._keep(errand, 0, f"refused:{error}", [])
                return
        connection.begin(errand, now_ns)
        self.flying[errand.number] = connection
        if connection.open:
            self._send(connection, errand)

    def _keep(self, errand: Errand, sent_ns: int, ended: str, reads: list[Read]) -> None:
        """Leave a request that has ended to the spool."""
        now_ns = time.monotonic_ns()
        self.finished.append((errand, sent_ns, now_ns, ended, reads))
        whole = ended in ("complete", "closed")
        for turn in self.schedule.note_ended(errand, now_ns, whole=whole):
            self.finished.append((turn, 0, now_ns, "cancelled:the turn before it failed", []))
        if ended.startswith("refused"):
            self.schedule.note_refused(now_ns)
        elif self.schedule.closed_loop:
            self.freed_ns.append(now_ns)

    def _finish(self, connection: Connection, ended: str) -> None:
        """End the request of a connection and start what comes next."""
        errand, connection.errand = connection.errand, None
        self.answering.pop(connection.fd, None)
        if errand is not None:
            del self.flying[errand.number]
            self._keep(errand, connection.sent_ns, ended, connection.reads)
        if ended == "complete" and connection.keep_alive and not connection.partial:
            self.pool.give_back(connection, time.monotonic_ns())
        else:
            self.pool.drop(connection)
        self._pump()

    def _tick(self, now_ns: int) -> None:
        """Do what is done every 10 ms."""
        a_second = self.pulse.tick(now_ns)
        while self.flying:
            oldest = next(iter(self.flying.values()))
            if now_ns - oldest.begun_ns < self.timeout_ns:
                break
            self._finish(oldest, f"timeout:no answer within {self.timeout_ns / 1e9:g} s")
        if self.schedule.end_ns is not None and now_ns >= self.schedule.end_ns:
            self._close_window(now_ns)
        if not (self.schedule.closed_loop and self.ready):
            self.pool.fill(_OPENINGS)
        filled = self.pool.filled() or self.pulse.seconds() > _FILL_LIMIT_S
        if not self.ready and filled and self.schedule.is_primed(len(self.flying)):
            self.ready = True
            self.control.sendall(b"ready\n")
        if a_second:
            self._spool_long()
        self._pump()

    def _close_window(self, now_ns: int) -> None:
        """Start nothing more; what is in flight may end."""
        for errand in self.schedule.close(now_ns):
            self._keep(errand, 0, "cancelled:no room until the window closed", [])

    def _stop(self, why: str) -> None:
        """End everything now."""
        self.schedule.drop()
        self.schedule.origin_ns = self.schedule.origin_ns or time.monotonic_ns()
        for connection in list(self.flying.values()):
            self._finish(connection, f"cancelled:{why}")

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
        if self.spool.behind and not self.behind:
            self.behind = True
            self._stop("the answers could not be parsed as fast as they came")

    def _spool(
        self, errand: Errand, sent_ns: int, ended_ns: int, ended: str, reads: list[Read]
    ) -> None:
        self.spool.write(
            number=errand.number,
            warmup=errand.warmup,
            due_ns=self.schedule.intended_ns(errand),
            sent_ns=sent_ns,
            ended_ns=ended_ns,
            offset_ns=self.pulse.offset_ns,
            asked=errand.asked,
            ended=ended,
            reads=reads,
        )

    def _take_feed(self) -> None:
        for errand in self.feed.read():
            self.schedule.add(errand)
        self.schedule.ended = self.schedule.ended or self.feed.ended
        self._pump()

    def _want_feed(self) -> None:
        """Read the pipe only while there is room ahead."""
        want = self.schedule.wants_more()
        if want != self.feeding:
            self.feeding = want
            if want:
                self.epoll.register(self.feed.fd, select.EPOLLIN)
            else:
                self.epoll.unregister(self.feed.fd)

    def _obey(self) -> None:
        """Do what the parent says; its silence for ever means that it is gone."""
        said = self.control.recv(1 << 16)
        for line in said.splitlines() or [b'{"stop": "the parent process is gone"}']:
            order = json.loads(line)
            if "stop" in order:
                self._stop(order["stop"])
            elif self.schedule.origin_ns is None:
                self.schedule.begin(order["open_ns"])
                self.cpu_from_ns = time.process_time_ns()
                self.timer.arm(order["open_ns"])

    def _over(self) -> bool:
        return (
            not self.flying
            and not self.finished
            and self.schedule.ended
            and self.schedule.origin_ns is not None
            and not len(self.schedule)
        )

    def report(self) -> dict[str, object]:
        """Return what the proof needs of this worker, as JSON takes it."""
        return {
            "cpu_ns": time.process_time_ns() - self.cpu_from_ns,
            "loop_delay": self.pulse.delay.plain(),
            "turnaround": self.turnaround.plain(),
            "sending": self.sending.plain(),
            "clock_error_ns": self.pulse.clock_error_ns,
            "clock_steps": self.pulse.clock_steps,
            "connections": self.pool.opened,
            "first_sent_ns": self.first_sent_ns,
            "behind": self.behind,
        }


def main() -> None:
    """Run one worker: settings in the first line of the feed, orders on the control socket."""
    config = json.loads(_first_line())
    if config["cpus"]:
        os.sched_setaffinity(0, config["cpus"])
    be_prompt()
    control = socket.socket(fileno=int(sys.argv[1]))
    worker = Worker(config, Feed(sys.stdin.fileno()), control)
    gc.collect()
    gc.freeze()
    gc.disable()
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
