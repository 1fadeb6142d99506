"""What a person sees of a run: a live line on a terminal, timestamped lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import IO, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One thing that happened.

    Attributes:
        event: `run`, `boot`, `phase`, `load`, `ended`, `note`.
        subject: whom it concerns: a cell's label and boot, or empty.
        detail: what happened.
        done: boots that are stored.
        total: boots of the run.
        left_s: estimate of the time left, None while there is none.
    """

    event: str
    subject: str = ""
    detail: str = ""
    done: int = 0
    total: int = 0
    left_s: float | None = None


Watch = Callable[[Happening], None]


def unseen(happening: Happening) -> None:
    """Show nothing."""


@contextmanager
def watching(stream: IO[str], *, live: bool) -> Iterator[Watch]:
    """Give a watch that shows a run on a stream.

    Args:
        stream: where it is shown.
        live: keep one line up to date below the lines, for a terminal.
    """
    console = Console(file=cast("IO[str]", _Lasting(stream)), highlight=False, soft_wrap=True)
    if not live:
        yield lambda happening: _line(console, happening)
        return
    status = _Status()
    with Live(status, console=console, refresh_per_second=4, transient=True) as shown:

        def watch(happening: Happening) -> None:
            status.now = happening
            if happening.event in {"ended", "note", "run"}:
                _line(shown.console, happening)

        yield watch


def duration(seconds: float) -> str:
    """Return seconds as a person says them: `45 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


class _Lasting:
    """A stream that outlives its terminal: a run that is asked to stop must not fail at telling."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self.encoding = getattr(stream, "encoding", "utf-8")

    def write(self, text: str) -> int:
        """Write as long as somebody listens."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush as long as somebody listens."""
        with suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Tell whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the stream's own descriptor, which tells its width."""
        return self._stream.fileno()


class _Status:
    """The live line; its clock moves between happenings."""

    def __init__(self) -> None:
        self.now = Happening(event="run")
        self._since = time.monotonic()
        self._shown = self.now

    def __rich__(self) -> Text:
        if self.now is not self._shown:
            self._shown, self._since = self.now, time.monotonic()
        now, waited = self.now, duration(time.monotonic() - self._since)
        text = f"{_count(now)}  {now.subject}  {now.detail}  {waited}{_left(now)}"
        return Text(text, overflow="ellipsis", no_wrap=True)


def _line(console: Console, happening: Happening) -> None:
    stamp = datetime.now().astimezone().strftime("%H:%M:%S")
    parts = (stamp, _count(happening), happening.subject, happening.detail)
    console.print("  ".join(part for part in parts if part) + _left(happening), markup=False)


def _count(happening: Happening) -> str:
    return f"{happening.done}/{happening.total}" if happening.total else ""


def _left(happening: Happening) -> str:
    return f"  (about {duration(happening.left_s)} left)" if happening.left_s else ""
