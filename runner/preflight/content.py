"""The identity of a model's folder: a hash of all its bytes, of which unchanged files are known."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from runner.stored.parts import write_text

_LENGTH: Final = 40


def memory() -> Path:
    """Return the folder that remembers hashes, below XDG_CACHE_HOME."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "runner" / "hashes"


def content_hash(folder: Path, remembered: Path | None = None) -> str:
    """Return a hash of the names and bytes of all files of a folder.

    Reading 100 GB takes a minute, so the hash of each file is remembered with its size, its inode
    and its times, and a file of which all these are the same is not read again.

    Args:
        folder: the model.
        remembered: folder of what is remembered; this user's own by default.
    """
    place = str(folder.resolve())
    path = (remembered or memory()) / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"
    known, whole = _read(path), hashlib.sha256()
    found = {name: _entry(file, known.get(name)) for name, file in _files(folder)}
    for name, (_, digest) in found.items():
        whole.update(f"{name}\0{digest}\n".encode())
    if found != known:
        with suppress(OSError):  # a home that cannot be written costs time, nothing else
            write_text(path, json.dumps(found))
    return whole.hexdigest()[:_LENGTH]


def _files(folder: Path) -> list[tuple[str, Path]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted((str(path.relative_to(folder)), path) for path in files)


def _entry(path: Path, known: Any) -> list[Any]:
    """Return what tells a file from another, and its hash."""
    stat = path.stat()
    mark = [stat.st_size, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns]
    if isinstance(known, list) and known[:1] == [mark]:
        return known
    with path.open("rb") as file:
        return [mark, hashlib.file_digest(file, "sha256").hexdigest()]


def _read(path: Path) -> dict[str, Any]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
