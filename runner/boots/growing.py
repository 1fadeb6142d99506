"""A server's log while it grows: what it has said so far, for whoever waits for the server."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engines.reading import Reader

_BLOCK_BYTES: Final = 1 << 20


class GrowingLog:
    """Reads on where it left off, each time it is asked.

    Args:
        path: the file that the output goes to; it need not exist yet.
        engine: name of the engine. One without a log grammar says nothing.
    """

    def __init__(self, path: Path, engine: str) -> None:
        self._path = path
        self.read_bytes = 0
        """How much of it has been read: a server that goes on says more."""
        try:
            self._reader: Reader | None = Reader(engine)
        except KeyError:
            self._reader = None

    @property
    def speaks(self) -> bool:
        """Whether it has said anything that can be understood or waited for."""
        self._read_on()
        return self._reader is not None and self.read_bytes > 0

    @property
    def ready(self) -> bool:
        """Whether it has said that the server is ready."""
        self._read_on()
        return self._reader is not None and self._reader.ready

    @property
    def cause(self) -> str | None:
        """What it has said that the server dies of; None while it names nothing."""
        self._read_on()
        return self._reader.cause if self._reader else None

    def _read_on(self) -> None:
        if self._reader is None or not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self.read_bytes)
            while block := file.read(_BLOCK_BYTES):
                self._reader.feed(block)
                self.read_bytes += len(block)
