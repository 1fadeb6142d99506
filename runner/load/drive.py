"""Drives one load: starts workers, feeds them, opens the window, and reads back what happened."""

from __future__ import annotations

import itertools
import selectors
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from runner.load import Ask, Target, Timeline, feed, shard
from runner.load.census import Steady, census
from runner.load.crew import Member
from runner.load.evidence import proof_of, windows_of
from runner.load.proof import Proof

_POLL_S: Final = 0.2
_OPENING_NS: Final = 20_000_000
_NO_LIMIT: Final = 1 << 30
_RESERVE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """One load as it went. Times are CLOCK_MONOTONIC nanoseconds.

    Attributes:
        proof: how exact it is.
        opened_ns: first send of the window (open loop: the schedule's origin).
        closed_ns: end of the window: of its last request, or when its duration had passed.
        steady: the part in which the asked number was in flight (open loop: the whole time of
            arrivals); None when it never was.
        aborted: why it was ended early, None when it was not.
        shards: files of the timelines, one per worker; beside each a `.failed` with the raw bytes
            of requests that failed.
    """

    proof: Proof
    opened_ns: int
    closed_ns: int
    steady: Steady | None
    aborted: str | None
    shards: tuple[Path, ...]

    def timelines(self) -> Iterator[Timeline]:
        """Yield every timeline, the warm-up's too, read from disk one at a time."""
        return itertools.chain.from_iterable(map(shard.read, self.shards))


def drive(  # noqa: PLR0913 - each is a fact of the load
    *,
    target: Target,
    asks: Iterable[Ask],
    in_flight: int | None,
    warmup: Iterable[Ask] = (),
    workers: int = 1,
    cpus: tuple[int, ...] | None = None,
    request_timeout_s: float,
    spool: Path,
    stop_when: Callable[[], str | None] = lambda: None,
    duration_s: float | None = None,
    max_in_flight: int | None = None,
) -> Driven:
    """Send requests, keep every time, and say how exact the times are.

    Args:
        target: where to.
        asks: the window's requests, taken as they are needed. In open loop each has its `due_s`,
            never decreasing, counted from the window's opening.
        in_flight: requests to hold in flight from the first to the last (closed loop); None sends
            each at its own time (open loop).
        warmup: requests before the window. In closed loop they hand their slots over without a
            drain. In open loop, those with `due_s` are arrivals before the window, which opens
            at the last of them; those without are sent and answered first.
        workers: processes that send; each takes every n-th request or session.
        cpus: cores for them, one each in turn; None leaves it to the kernel.
        request_timeout_s: a request that is not answered by then is a `timeout`.
        spool: an empty folder for what the workers write; `Driven` reads from it.
        stop_when: asked every 0.2 s; a sentence it returns ends the load at once.
        duration_s: ends the window by time: nothing is sent after it, what is in flight may end.
        max_in_flight: in open loop, requests over this many wait in the client.

    Raises:
        ValueError: the arguments contradict each other.
    """
    before, warm_s = _warmup(tuple(warmup), in_flight)
    workers = min(workers, in_flight or workers)
    caps = _shares(in_flight or max_in_flight or _NO_LIMIT * workers, workers)
    spool.mkdir(parents=True, exist_ok=True)
    crew = [
        Member(number, spool, {
            "host": target.host,
            "port": target.port,
            "tls": target.tls,
            "closed_loop": in_flight is not None,
            "cap": cap,
            "reserve": cap if in_flight else min(cap, _RESERVE),
            "timeout_ns": round(request_timeout_s * 1e9),
            "duration_ns": None if duration_s is None else round(duration_s * 1e9),
            "opens_after_ns": round(warm_s * 1e9),
            "cpus": [cpus[number % len(cpus)]] if cpus else [],
        })
        for number, cap in enumerate(caps)
    ]  # fmt: skip
    try:
        head = feed.head_of(target)
        frames = _frames(before, asks, head, warm_s, timed=in_flight is None, workers=len(crew))
        origin_ns, aborted = _Conductor(crew, frames, stop_when).conduct()
        unparsed = [member.join_parser() for member in crew]
        aborted = aborted or next(filter(None, unparsed), None)
    finally:
        for member in crew:
            member.end()
    shards = tuple(member.shard for member in crew)
    found = census(itertools.chain.from_iterable(map(shard.read, shards)))
    windows = windows_of(found, in_flight, duration_s, origin_ns + round(warm_s * 1e9))
    proof = proof_of(
        found,
        windows,
        crew,
        target=target,
        in_flight=in_flight,
        max_in_flight=max_in_flight,
        cpus=cpus or (),
    )
    return Driven(
        proof=proof,
        opened_ns=windows.opened_ns,
        closed_ns=windows.closed_ns,
        steady=windows.steady,
        aborted=aborted,
        shards=shards,
    )


def _warmup(asks: tuple[Ask, ...], in_flight: int | None) -> tuple[tuple[Ask, ...], float]:
    """Return the warm-up's asks and how long before the window their arrivals begin."""
    first_turns = [ask for ask in asks if ask.after is None]
    dues = [ask.due_s for ask in first_turns if ask.due_s is not None]
    if in_flight is not None or not dues:
        return asks, 0.0
    if len(dues) != len(first_turns):
        raise ValueError("either all warm-up requests have a due time or none has")
    return asks, max(dues)


def _shares(total: int, workers: int) -> list[int]:
    """Divide a number among workers, the first ones taking what is left over."""
    if total < 1 or workers < 1:
        raise ValueError("a load needs at least one worker and one request in flight")
    each, over = divmod(total, workers)
    return [each + (number < over) for number in range(workers)]


Frame = tuple[int, bytes]
"""Which worker gets it, and what it gets."""


def _frames(
    warmup: Sequence[Ask],
    asks: Iterable[Ask],
    head: bytes,
    warm_s: float,
    *,
    timed: bool,
    workers: int,
) -> Iterator[Frame]:
    """Yield the frames of all requests in order, their times counted from the first arrival.

    Each worker gets every n-th request; later turns go where their session is.
    """
    owners = array("H")
    for asked, warm in ((warmup, True), (asks, False)):
        first, last_s = len(owners), 0.0
        for number, ask in enumerate(asked, first):
            after = _after(ask, number, first)
            owners.append(number % workers if after is None else owners[after])
            due_s = _due_s(ask, 0.0 if warm else warm_s, last_s, timed=timed, warm=warm)
            last_s = last_s if due_s is None else due_s
            moved = replace(ask, due_s=due_s, after=after)
            yield owners[-1], feed.framed(number, moved, head, warmup=warm)


def _after(ask: Ask, number: int, first: int) -> int | None:
    """Return the number, within the whole load, of the request that an ask waits for."""
    if ask.after is None:
        return None
    if not 0 <= ask.after < number - first:
        raise ValueError(f"request {number - first} waits for {ask.after}, which is not before it")
    return first + ask.after


def _due_s(ask: Ask, offset_s: float, last_s: float, *, timed: bool, warm: bool) -> float | None:
    if not timed or ask.after is not None:
        return None
    if ask.due_s is None:
        if warm:
            return None
        raise ValueError("in open loop every request needs its due time")
    due_s = ask.due_s + offset_s
    if due_s < last_s:
        raise ValueError("due times must not decrease")
    return due_s


class _Conductor:
    """Feeds the crew, opens the window when all are ready, and watches over it."""

    def __init__(
        self, crew: Sequence[Member], frames: Iterator[Frame], stop_when: Callable[[], str | None]
    ) -> None:
        self._crew = crew
        self._frames: Iterator[Frame] | None = frames
        self._stop_when = stop_when
        self._alive = set(range(len(crew)))
        self._origin_ns = 0
        self._aborted: str | None = None
        self._asked_ns = 0

    def conduct(self) -> tuple[int, str | None]:
        """Go on until every worker has ended; return when the load began and why it was ended."""
        while self._alive:
            self._pull()
            self._exchange()
            self._watch()
        return self._origin_ns or time.monotonic_ns(), self._aborted

    def _pull(self) -> None:
        """Take asks as long as no worker has too many waiting."""
        until_ns = time.monotonic_ns() + 20_000_000
        while self._frames is not None and time.monotonic_ns() < until_ns:
            if not all(member.has_room() for member in self._crew):
                return
            owner, frame = next(self._frames, (-1, b""))
            if owner >= 0:
                self._crew[owner].give(frame)
                continue
            self._frames = None
            for member in self._crew:
                member.give_last()

    def _exchange(self) -> None:
        """Write and read what the pipes and sockets of the crew allow, waiting up to 0.2 s."""
        with selectors.PollSelector() as selector:
            for number in self._alive:
                member = self._crew[number]
                selector.register(member.control, selectors.EVENT_READ, number)
                if member.wants_write():
                    selector.register(member.feed_fd, selectors.EVENT_WRITE, number)
            for key, event in selector.select(_POLL_S):
                member = self._crew[key.data]
                if event & selectors.EVENT_WRITE:
                    member.push()
                elif not member.hear():
                    self._alive.discard(key.data)
                    self._abort(member.join())
        if not self._origin_ns and all(self._crew[number].ready for number in self._alive):
            self._origin_ns = time.monotonic_ns() + _OPENING_NS
            self._tell(open_ns=self._origin_ns)

    def _watch(self) -> None:
        now_ns = time.monotonic_ns()
        if self._aborted or now_ns - self._asked_ns < _POLL_S * 1e9:
            return
        self._asked_ns = now_ns
        self._abort(self._stop_when())

    def _abort(self, why: str | None) -> None:
        if why and not self._aborted:
            self._aborted = why
            self._frames = None
            self._tell(stop=why)

    def _tell(self, **order: object) -> None:
        for number in self._alive:
            self._crew[number].say(**order)
