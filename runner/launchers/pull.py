"""Images pulled: tried again while the registry or the network fails, with progress told."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import tenacity

from runner.errors import HostError
from runner.launchers import Pulling
from runner.launchers.daemon import Daemon, DaemonGone, Late, Refused

T = TypeVar("T")

TRIES: Final = 4
TOLD_S: Final = 10.0
LASTING: Final = (
    "not found",
    "denied",
    "unauthorized",
    "does not exist",
    "manifest unknown",
    "no matching manifest",
    "invalid reference",
    "no space left",
    "no such host",
)
"""Words of a registry's or Docker's answer that will be the same the next time."""


def pull(daemon: Daemon, image: str, pulling: Pulling) -> None:
    """Pull an image.

    Raises:
        HostError: it cannot be pulled; the message says what to type.
    """
    deadline_s = time.monotonic() + pulling.limit_s
    pulling.tell(f"pulls {image}")

    def once() -> None:
        progress = Progress(image=image, tell=pulling.tell)
        for event in until(deadline_s, daemon.pull(image)):
            progress.take(event)

    again = tenacity.Retrying(
        retry=tenacity.retry_if_exception(_passes),
        stop=tenacity.stop_after_attempt(TRIES) | tenacity.stop_after_delay(pulling.limit_s),
        wait=tenacity.wait_exponential(multiplier=pulling.pause_s, max=30),
        before_sleep=lambda state: pulling.tell(f"pulling {image} failed; trying again"),
        reraise=True,
    )
    try:
        again(once)
    except Late as error:
        raise HostError(
            f"image {image} was not pulled within {pulling.limit_s:g} s; `docker pull {image}` by"
            " hand, or raise pull_s in [timeouts]"
        ) from error
    except (DaemonGone, Refused) as error:
        raise HostError(
            f"image {image} could not be pulled ({error}); `docker pull {image}` by hand, correct"
            " its name, or `docker login` where it is private"
        ) from error


def until(deadline_s: float, events: Iterable[T]) -> Iterator[T]:
    """Yield what comes before a moment of CLOCK_MONOTONIC; one that never comes holds nobody up.

    Raises:
        Late: the moment came first.
    """
    arrived: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def carry() -> None:
        try:
            for event in events:
                arrived.put((event, None))
            arrived.put((None, StopIteration()))
        except (DaemonGone, Refused) as error:
            arrived.put((None, error))

    threading.Thread(target=carry, name="pull", daemon=True).start()
    while True:
        try:
            event, error = arrived.get(timeout=max(0.0, deadline_s - time.monotonic()))
        except queue.Empty:
            raise Late("it did not end in time") from None
        if isinstance(error, StopIteration):
            return
        if error is not None:
            raise error
        if event is not None:
            yield event


@dataclass(kw_only=True)
class Progress:
    """What is known of a pull, told every ten seconds.

    Attributes:
        image: what is pulled.
        tell: is told.
        clock: seconds, monotonic.
    """

    image: str
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _layers: dict[str, tuple[int, int]] = field(default_factory=dict)
    _told_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._told_s = self.clock()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take one of Docker's own progress events."""
        about = event.get("progressDetail") or {}
        if event.get("status") == "Downloading" and about.get("total"):
            self._layers[str(event.get("id"))] = (int(about["current"]), int(about["total"]))
        if self.clock() - self._told_s >= TOLD_S:
            self._told_s = self.clock()
            self.tell(f"pulls {self.image}: {_sum(self._layers.values())}")


def _sum(layers: Iterable[tuple[int, int]]) -> str:
    listed = list(layers)
    got, whole = sum(one[0] for one in listed), sum(one[1] for one in listed)
    return f"{got / 2**30:.2f} of {whole / 2**30:.2f} GiB of the layers that began"


def _passes(error: BaseException) -> bool:
    if isinstance(error, Late):
        return False
    said = str(error).lower()
    return isinstance(error, (DaemonGone, Refused)) and not any(word in said for word in LASTING)
