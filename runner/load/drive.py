"""Drives one load: starts workers, feeds them, opens the window, and reads back what happened."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.load import Ask, Target, Timeline, shard
from runner.load.census import Steady, census
from runner.load.conduct import Conductor
from runner.load.crew import Member
from runner.load.evidence import Asked, proof_of, windows_of
from runner.load.frames import frames_of, warmup_s
from runner.load.patience import ENDLESS, Cut, Patience
from runner.load.proof import Proof

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
        cut: which limit of the load's patience ended it, None when none did.
        shards: files of the timelines, one per worker; beside each a `.failed` with the raw bytes
            of requests that failed.
    """

    proof: Proof
    opened_ns: int
    closed_ns: int
    steady: Steady | None
    aborted: str | None
    shards: tuple[Path, ...]
    cut: Cut | None = None

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
    tell_flying: Callable[[int], None] = lambda flying: None,
    patience: Patience = ENDLESS,
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
        tell_flying: told before that, from the first arrival on, how many requests are in flight.
        patience: ends the load when nothing comes any more, or its warm-up does not end.
        duration_s: ends the window by time: nothing is sent after it, what is in flight may end.
        max_in_flight: in open loop, requests over this many wait in the client.

    Raises:
        ValueError: the arguments contradict each other.
    """
    before, timed = tuple(warmup), in_flight is None
    warm_s = warmup_s(before, timed=timed)
    spool.mkdir(parents=True, exist_ok=True)
    config = {
        "host": target.host,
        "port": target.port,
        "tls": target.tls,
        "closed_loop": not timed,
        "timeout_ns": _ns(request_timeout_s),
        "duration_ns": None if duration_s is None else _ns(duration_s),
        "opens_after_ns": _ns(warm_s),
    }
    caps = _shares(in_flight or max_in_flight, min(workers, in_flight or workers))
    crew = [
        Member(number, spool, {**config, **_lot(number, cap, in_flight, cpus)})
        for number, cap in enumerate(caps)
    ]
    try:
        frames = frames_of(before, asks, target, warm_s=warm_s, timed=timed, workers=len(crew))
        conductor = Conductor(crew, frames, stop_when, tell_flying, patience, warms=bool(before))
        origin_ns, aborted = conductor.conduct()
        unparsed = [member.join_parser() for member in crew]
        aborted = aborted or next(filter(None, unparsed), None)
    finally:
        for member in crew:
            member.end()
    found = census(itertools.chain.from_iterable(shard.read(member.shard) for member in crew))
    windows = windows_of(found, in_flight, duration_s, origin_ns + _ns(warm_s))
    asked = Asked(target=target, in_flight=in_flight, max_in_flight=max_in_flight, cpus=cpus or ())
    return Driven(
        proof=proof_of(found, windows, crew, asked),
        opened_ns=windows.opened_ns,
        closed_ns=windows.closed_ns,
        steady=windows.steady,
        aborted=aborted,
        shards=tuple(member.shard for member in crew),
        cut=conductor.cut,
    )


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _shares(total: int | None, workers: int) -> list[int]:
    """Divide the requests in flight among workers, the first ones taking what is left over."""
    if workers < 1 or (total is not None and total < 1):
        raise ValueError("a load needs at least one worker and one request in flight")
    each, over = divmod(_NO_LIMIT * workers if total is None else total, workers)
    return [each + (number < over) for number in range(workers)]


def _lot(
    number: int, cap: int, in_flight: int | None, cpus: tuple[int, ...] | None
) -> dict[str, object]:
    """Return what one worker is given that others are not."""
    return {
        "cap": cap,
        "reserve": cap if in_flight else min(cap, _RESERVE),
        "cpus": [cpus[number % len(cpus)]] if cpus else [],
    }
