"""Files that are whole or absent: written beside, flushed to disk, renamed into place."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runner.errors import HostError


class DiskFull(HostError):  # noqa: N818 - a condition, named as one
    """There is no room left for results; what is whole stays."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a path to write to; rename it to `path` when the block ends well, remove it otherwise.

    Raises:
        DiskFull: the disk, or the quota, has no room.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    try:
        yield draft
        _flush(draft)
        draft.replace(path)
        flush_folder(path.parent)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(
                f"{path}: the disk is full; every finished boot before it is stored. Make room and"
                " run the same exec again"
            ) from error
        raise
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file, whole or not at all."""
    with whole(path) as draft:
        pq.write_table(table, draft, compression="zstd")


def write_batches(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write a Parquet file from tables that come one after the other, whole or not at all."""
    with whole(path) as draft, pq.ParquetWriter(draft, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def compress(source: Path, path: Path, clean: Callable[[bytes], bytes]) -> None:
    """Write a text file gzip-compressed, each line passed through `clean`."""
    with whole(path) as draft, source.open("rb") as lines, gzip.open(draft, "wb") as packed:
        for line in lines:
            packed.write(clean(line))


def flush_folder(folder: Path) -> None:
    """Make a rename in a folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush(path: Path) -> None:
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
