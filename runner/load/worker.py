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
from runner.load.connection import READ_BYTES, space_bytes
from runner.load.feed import Errand, Feed
from runner.load.flight import Flight
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
_TELL_TICKS: Final = 20
_CLOSE_NS: Final = 100_000
_FEW_READS: Final = 16
_GATHER_S: Final = 0.0002

Finished = tuple[Errand, int, int, str, list[Read]]


class Worker:
    """The loop, and what it does between reads."""

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
        self.flight = Flight(self.pool, self.epoll, self.space_bytes, self._sent, self._ended)
        self.spool = Writer(Path(config["spool"]))
        self.pulse = Pulse()
        self.timer = Timer()
        self.feed = feed
        self.feeding = True
        self.control = control
        self.finished: deque[Finished] = deque()
        self.freed_ns: deque[int] = deque()
        self.turnaround = Lags()
        self.pumping = False
        self.ready = False
        self.ticks = 0
        self.cpu_from_ns = 0
        self.first_sent_ns = 0
        self.heard_ns = 0
        self.measuring = False
        for fd in (feed.fd, control.fileno(), self.pulse.fd, self.timer.fd):
            self.epoll.register(fd, select.EPOLLIN)

    def run(self) -> None:
        """Go on until every request has ended."""
        poll, clock, flight = self.epoll.poll, time.monotonic_ns, self.flight
        answering, space = flight.answering, self.space_bytes
        # the kernel stamps every read, and a closed loop has no deadlines: so what comes thick
        # may gather for a moment, which spares most of the waits and a fifth of the CPU
        gathers = self.schedule.closed_loop and space > 0
        heard_ns = woke_ns = clock()
        self.pulse.start(woke_ns)
        while not self._over():
            before_ns = clock()
            events = poll(0 if self.finished else -1, _MAX_EVENTS)
            last_ns, woke_ns = woke_ns, clock()
            since_ns = woke_ns if woke_ns - before_ns > _SLEPT_NS else last_ns
            for fd, event in events:
                connection = answering.get(fd)
                if connection is None:
                    self.heard_ns = max(self.heard_ns, heard_ns)
                    self._attend(fd, event, since_ns)
                    continue
                # what Flight._receive does, spelled out: this is done for every token
                try:
                    data, stamp, _, _ = connection.receive(READ_BYTES, space)
                except (BlockingIOError, ssl.SSLWantReadError):
                    continue
                except OSError as error:
                    flight.finish(connection, f"reset:{error}")
                    continue
                connection.reads.append((clock(), since_ns, stamp, data))
                heard_ns = woke_ns
                if connection.careful or data[-4:] == b"\r\n\r\n" or len(data) < 4:
                    flight.look(connection, since_ns)
            if gathers and len(events) < _FEW_READS and _are_close(len(events), woke_ns - last_ns):
                time.sleep(_GATHER_S)
            if self.finished and (not events or len(self.finished) > _WAVE):
                self._spool(*self.finished.popleft())

    def _attend(self, fd: int, event: int, since_ns: int) -> None:
        """Deal with everything that is not the bytes of an answer."""
        connection = self.pool.by_fd.get(fd)
        if connection is not None:
            self.flight.attend(connection, event, since_ns)
        elif fd == self.pulse.fd:
            self._tick(time.monotonic_ns())
        elif fd == self.feed.fd:
            self._take_feed()
        elif fd == self.timer.fd:
            self.timer.expirations()
            self._pump()
        elif fd == self.control.fileno():
            self._obey()

    def _pump(self) -> None:
        """Start what is due and has room."""
        if self.pumping:
            return
        self.pumping = True
        now_ns = time.monotonic_ns()
        while errand := self.schedule.next(now_ns, len(self.flight)):
            self.flight.start(errand, now_ns)
        if self.schedule.wake_ns:
            self.timer.arm(self.schedule.wake_ns)
        self.pumping = False
        self._want_feed()

    def _sent(self, errand: Errand, sent_ns: int) -> None:
        if self.freed_ns:
            self.turnaround.add((sent_ns - self.freed_ns.popleft(),))
        self.schedule.note_sent(errand, sent_ns)
        self.first_sent_ns = self.first_sent_ns or sent_ns
        self.measuring = self.measuring or not errand.warmup

    def _ended(self, errand: Errand, sent_ns: int, ended: str, reads: list[Read]) -> None:
        """Leave a request that has ended to the spool, and start what comes next."""
        now_ns = time.monotonic_ns()
        self.finished.append((errand, sent_ns, now_ns, ended, reads))
        whole = ended in ("complete", "closed")
        for turn in self.schedule.note_ended(errand, now_ns, whole=whole):
            self.finished.append((turn, 0, now_ns, "cancelled:the turn before it failed", []))
        if ended.startswith("refused"):
            self.schedule.note_refused(now_ns)
        elif self.schedule.closed_loop:
            self.freed_ns.append(now_ns)
        self._pump()

    def _tick(self, now_ns: int) -> None:
        """Do what is done every 10 ms."""
        a_second = self.pulse.tick(now_ns)
        self.flight.expire(now_ns, self.timeout_ns)
        if self.schedule.end_ns is not None and now_ns >= self.schedule.end_ns:
            self._close_window(now_ns)
        if not (self.schedule.closed_loop and self.ready):
            self.pool.fill(_OPENINGS)
        filled = self.pool.filled() or self.pulse.seconds() > _FILL_LIMIT_S
        if not self.ready and filled and self.schedule.is_primed(len(self.flight)):
            self.ready = True
            self.control.sendall(b"ready\n")
        self.ticks += 1
        if self.ticks % _TELL_TICKS == 0:
            self._tell_how_it_goes(now_ns)
        if a_second:
            self._relieve()
        self._pump()

    def _tell_how_it_goes(self, now_ns: int) -> None:
        """Tell the parent what is in flight, how long nothing has come, if the window is open."""
        if not self.flight.requests:
            self.heard_ns = now_ns
        silent_ms = (now_ns - self.heard_ns) // 1_000_000
        self.control.sendall(b"flying %d %d %d\n" % (len(self.flight), silent_ms, self.measuring))

    def _close_window(self, now_ns: int) -> None:
        """Start nothing more; what is in flight may end."""
        for errand in self.schedule.close(now_ns):
            why = "cancelled:no room until the window closed"
            self.finished.append((errand, 0, now_ns, why, []))

    def _stop(self, why: str) -> None:
        """End everything now."""
        self.schedule.drop()
        self.schedule.origin_ns = self.schedule.origin_ns or time.monotonic_ns()
        self.flight.cancel(why)

    def _relieve(self) -> None:
        """Write what long answers have brought so far, so that memory stays bounded."""
        for errand, sent_ns, reads in self.flight.take_long(_LONG_READS):
            self._spool(errand, sent_ns, 0, "", reads)
        if self.spool.behind and not self.schedule.ended:
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
        if not said:
            self.epoll.unregister(self.control.fileno())  # else it has something to read for ever
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
            not self.flight.requests
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
            "sending": self.flight.sending.plain(),
            "clock_error_ns": self.pulse.clock_error_ns,
            "clock_steps": self.pulse.clock_steps,
            "connections": self.pool.opened,
            "first_sent_ns": self.first_sent_ns,
            "behind": self.spool.behind,
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


def _are_close(reads: int, within_ns: int) -> bool:
    """Return whether reads come so thick that waiting for each one costs more than it tells."""
    return reads * _CLOSE_NS > within_ns


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit("the parent process is gone")
        line += byte
    return line


if __name__ == "__main__":
    main()
