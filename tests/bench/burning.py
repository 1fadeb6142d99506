"""A load worker that wastes time at every read, to see what a busy loop does to its stamps."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from runner.load import pool, worker
from runner.load.connection import Connection

BURN_NS = int(os.environ.get("BURN_NS", "0"))


Received = tuple[bytes, Sequence[tuple[int, int, bytes]], int, object]


class Burning(Connection):
    """A connection whose every read is followed by some wasted time."""

    __slots__ = ()

    def shake(self) -> bool:
        """Go on with connecting; the burn begins when it is done."""
        done, receive = super().shake(), self.receive

        def burn(
            size: int, space: int
        ) -> tuple[bytes, Sequence[tuple[int, int, bytes]], int, object]:
            read = receive(size, space)
            until_ns = time.monotonic_ns() + BURN_NS
            while time.monotonic_ns() < until_ns:
                pass
            return read

        if done:
            self.receive = burn
        return done


if __name__ == "__main__":
    vars(pool)["Connection"] = Burning
    worker.main()
