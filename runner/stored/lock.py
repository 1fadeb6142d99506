"""One writer per results folder: a lock that its owner's death releases."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from runner.errors import HostError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock during the block; the kernel frees it when this process dies.

    Raises:
        HostError: another process holds it; the message names it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with path.open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HostError(
                f"{folder}: {_owner(path)} is writing these results. Wait until it ends, or give"
                " another --results"
            ) from error
        handle.truncate(0)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": started}, handle)
        handle.flush()
        yield


def _owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
        return f"process {owner['pid']} on {owner['host']} (since {owner['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
