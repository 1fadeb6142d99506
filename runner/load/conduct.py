"""Feeds the workers of one load, opens its window, and watches over it."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from runner.load.crew import Member
from runner.load.frames import Frame
from runner.load.patience import ENDLESS, Cut, Patience

_POLL_S: Final = 0.2
_OPENING_NS: Final = 20_000_000
_PULL_NS: Final = 20_000_000
_STOP_LIMIT_NS: Final = 30_000_000_000


class Conductor:
    """Feeds the crew, opens the window when all are ready, and watches over it.

    Attributes:
        cut: which limit of its patience ended the load; None while none has.
    """

    def __init__(
        self,
        crew: Sequence[Member],
        frames: Iterator[Frame],
        stop_when: Callable[[], str | None],
        tell_flying: Callable[[int], None] = lambda flying: None,
        patience: Patience = ENDLESS,
        *,
        warms: bool = False,
    ) -> None:
        self._crew = crew
        self._frames: Iterator[Frame] | None = frames
        self._stop_when = stop_when
        self._tell_flying = tell_flying
        self._alive = set(range(len(crew)))
        self._origin_ns = 0
        self._aborted: str | None = None
        self._aborted_ns = 0
        self._asked_ns = 0
        self._patience = patience
        self._warms = warms
        self._began_ns = time.monotonic_ns()
        self.cut: Cut | None = None

    def conduct(self) -> tuple[int, str | None]:
        """Go on until every worker has ended; return when the load began and why it was ended."""
        while self._alive:
            self._pull()
            self._exchange()
            self._watch()
        return self._origin_ns or time.monotonic_ns(), self._aborted

    def _pull(self) -> None:
        """Take asks as long as no worker has too many waiting."""
        until_ns = time.monotonic_ns() + _PULL_NS
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
        if self._aborted:
            if now_ns - self._aborted_ns > _STOP_LIMIT_NS:
                for number in self._alive:
                    self._crew[number].kill_worker()
        elif now_ns - self._asked_ns > _POLL_S * 1e9:
            self._asked_ns = now_ns
            if 0 < self._origin_ns <= now_ns:
                self._tell_flying(sum(self._crew[number].flying for number in self._alive))
            self._abort(self._stop_when())
            self._be_patient(now_ns)

    def _be_patient(self, now_ns: int) -> None:
        """End the load where nothing comes any more, or where it takes too long."""
        flying = [self._crew[number] for number in self._alive if self._crew[number].flying]
        warms = self._warms and not any(member.measuring for member in self._crew)
        cut = self._patience.cut(
            silent_s=min((member.silent_s for member in flying), default=0.0),
            lasted_s=(now_ns - self._began_ns) / 1e9,
            warms=warms,
        )
        if cut is not None and not self._aborted:
            self.cut = cut
            self._abort(cut.sentence)

    def _abort(self, why: str | None) -> None:
        if why and not self._aborted:
            self._aborted = why
            self._aborted_ns = time.monotonic_ns()
            self._frames = None
            self._tell(stop=why)

    def _tell(self, **order: object) -> None:
        for number in self._alive:
            self._crew[number].say(**order)
