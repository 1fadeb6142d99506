"""Rows of a log file: JSON lines, a JSON list, CSV or Parquet, by the file's ending."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.errors import ExperimentError

Row = Mapping[str, Any]
_ROWS_AT_ONCE = 4096


def rows_of(path: Path) -> Iterator[Row]:
    """Yield the rows of a file in order; only a JSON list is read as a whole.

    Raises:
        ExperimentError: it cannot be read, or has another form than its ending says.
    """
    readers = {".jsonl": _lines, ".json": _list, ".csv": _csv, ".parquet": _parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(readers)
        raise ExperimentError(f"{path}: no log format of this ending; known: {known}")
    try:
        yield from reader(path)
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror or error}; check the path") from error
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path}: it is not UTF-8 text ({error.reason})") from error


def _lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield _object(line, f"{path}:{number}")


def _object(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ExperimentError(f"{where}: it is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ExperimentError(f"{where}: a line of a log is one JSON object")
    return row


def _list(path: Path) -> Iterator[Row]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        hint = "a file of one object per line ends in .jsonl"
        raise ExperimentError(f"{path}: it is not JSON: {error}; {hint}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ExperimentError(f"{path}: a log in JSON is a list of objects")
    yield from rows


def _csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except pa.ArrowInvalid as error:
        raise ExperimentError(f"{path}: it is not Parquet: {error}") from error
