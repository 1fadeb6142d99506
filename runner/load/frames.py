"""Asks on their way to the workers: in order, dated from the first arrival, sessions whole."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from runner.load import Ask, Target, feed

Frame = tuple[int, bytes]
"""Which worker gets it, and what it gets."""


def frames_of(
    warmup: Sequence[Ask],
    asks: Iterable[Ask],
    target: Target,
    *,
    warm_s: float,
    timed: bool,
    workers: int,
) -> Iterator[Frame]:
    """Yield the frames of all requests in order, their times counted from the first arrival.

    Each worker gets every n-th request; later turns go where their session is.
    """
    head, owners = feed.head_of(target), array("H")
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


def warmup_s(asks: Sequence[Ask], *, timed: bool) -> float:
    """Return how long before the window the arrivals of a warm-up begin.

    Raises:
        ValueError: only some of them have times.
    """
    first_turns = [ask for ask in asks if ask.after is None]
    dues = [ask.due_s for ask in first_turns if ask.due_s is not None]
    if not timed or not dues:
        return 0.0
    if len(dues) != len(first_turns):
        raise ValueError("either all warm-up requests have a due time or none has")
    return max(dues)
