"""Results as pandas frames: `runner.results(path)`. It reads files and changes none."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from runner.errors import ExperimentError
from runner.figures.stored import timelines_of
from runner.load import Timeline
from runner.stored import rows
from runner.stored.store import BootKey

_READERS: Final = min(8, os.cpu_count() or 1)
"""Files read at once: decoding one keeps a core busy for two milliseconds, without the GIL."""

Kept = TypeVar("Kept")
Asked = ParamSpec("Asked")


def once(
    compute: Callable[Concatenate[Results, Asked], Kept],
) -> Callable[Concatenate[Results, Asked], Kept]:
    """Let a function of results compute each answer once; what it returns is not to be changed."""

    @functools.wraps(compute)
    def kept(results: Results, /, *args: Asked.args, **options: Asked.kwargs) -> Kept:
        key = (compute.__module__, compute.__name__, args, tuple(sorted(options.items())))
        if key not in results.kept:
            results.kept[key] = compute(results, *args, **options)
        found: Kept = results.kept[key]
        return found

    return kept


@dataclass
class Results:
    """The tables of one experiment, or of several, each read when first used.

    Columns are those of `runner.stored.rows.TABLES`, with `experiment` and `run` before them.

    Attributes:
        folders: one for each experiment.
        runs: only these runs; None for all.
        wanted: tells which columns are read, by table and column; the others are not there.
        unreadable: files that could not be read, or were written by a newer runner.
        kept: what was computed, so that it is computed once.
    """

    folders: Sequence[Path]
    runs: Sequence[str] | None = None
    wanted: Callable[[str, str], bool] = lambda table, column: True
    unreadable: list[Path] = field(default_factory=list)
    kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def notes(self) -> tuple[dict[str, Any], ...]:
        """Return what each run answers: its `experiment`, `run`, night and file as it was."""
        return tuple(note for folder in self.folders for note in self._notes(folder))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Return a row for each cell and run."""
        return self.table("cells")

    @cached_property
    def boots(self) -> pd.DataFrame:
        """Return a row for each boot."""
        return self.table("boots")

    @cached_property
    def facts(self) -> pd.DataFrame:
        """Return a row for each fact."""
        return self.table("facts")

    @cached_property
    def loads(self) -> pd.DataFrame:
        """Return a row for each load."""
        return self.table("loads")

    @cached_property
    def capacity(self) -> pd.DataFrame:
        """Return a row for each search and boot."""
        return self.table("capacity")

    @cached_property
    def requests(self) -> pd.DataFrame:
        """Return a row for each request; the largest table by far: see `timelines`."""
        return self.table("requests")

    def timelines(self, load: Mapping[str, Any]) -> Iterator[Timeline]:
        """Yield the requests of one row of `loads`; nothing where its file is not there.

        Memory holds a batch of them at a time.
        """
        [folder] = [f for f in self.folders if f.name == load["experiment"]]
        key = BootKey(str(load["cell_id"]), int(load["boot"]), int(load["attempt"]))
        name = f"{key.part}.{int(load['order']):03d}.parquet"
        path = folder / "requests" / f"run={load['run']}" / name
        try:
            batches = pq.ParquetFile(path).iter_batches(batch_size=2048)
            for batch in batches:
                yield from timelines_of(batch.to_pylist())
        except (pa.ArrowException, OSError):
            self.unreadable.append(path)

    def table(self, name: str) -> pd.DataFrame:
        """Return a whole table; a file that cannot be read is listed in `unreadable`."""
        columns = [column.name for column in rows.TABLES[name] if self.wanted(name, column.name)]
        empty = _with_keys(rows.schema(name).empty_table().select(columns), "", "")
        whole = pa.concat_tables([empty, *self.parts(name)], promote_options="permissive")
        return whole.combine_chunks().to_pandas()  # each row picked later would look at every chunk

    def parts(self, name: str) -> Iterator[pa.Table]:
        """Yield a table boot by boot; a file that cannot be read is listed in `unreadable`."""
        for folder in self.folders:
            yield from self._parts(folder, name)

    def paths(self, folder: Path, name: str) -> list[Path]:
        """Return the files of one experiment's table, of the runs that are asked for."""
        if self.runs is None:
            return sorted((folder / name).glob("run=*/*.parquet"))
        places = (folder / name / f"run={run}" for run in sorted(self.runs))
        return [path for place in places for path in sorted(place.glob("*.parquet"))]

    def _parts(self, folder: Path, name: str) -> Iterator[pa.Table]:
        known = [column.name for column in rows.TABLES[name] if self.wanted(name, column.name)]
        paths = self.paths(folder, name)
        with ThreadPoolExecutor(_READERS) as pool:
            for path, part in zip(paths, pool.map(lambda p: _read(p, known), paths), strict=True):
                if part is None:
                    self.unreadable.append(path)
                else:
                    yield _with_keys(part, folder.name, path.parent.name.removeprefix("run="))

    def _notes(self, folder: Path) -> Iterator[dict[str, Any]]:
        for path in sorted((folder / "runs").glob("*.json")):
            if self.runs is not None and path.stem not in self.runs:
                continue
            try:
                note: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                self.unreadable.append(path)
                continue
            yield {"experiment": folder.name, **note}


def results(
    path: str | Path,
    *,
    runs: Sequence[str] | None = None,
    wanted: Callable[[str, str], bool] | None = None,
) -> Results:
    """Return the results below a path: a results folder, or one experiment's folder in it.

    Args:
        path: `results/` or `results/<experiment>/`.
        runs: only these runs; all by default.
        wanted: which columns are read, by table and column; all by default.

    Raises:
        ExperimentError: there are no results at that path.
    """
    root = Path(path)
    folders = [root] if (root / "runs").is_dir() else sorted(p.parent for p in root.glob("*/runs"))
    if not folders:
        raise ExperimentError(
            f"{root}: no results here; run `runner exec` first, or correct the path"
        )
    found = Results(folders=folders, runs=runs)
    return replace(found, wanted=wanted) if wanted else found


def latest_runs(path: str | Path) -> list[str]:
    """Return the newest run of each experiment below a path.

    Raises:
        ExperimentError: there are no results at that path.
    """
    newest = [
        max((folder / "runs").glob("*.json"), default=None) for folder in results(path).folders
    ]
    return [run.stem for run in newest if run is not None]


def _read(path: Path, known: Sequence[str]) -> pa.Table | None:
    """Return the known columns of a file; None when it is damaged, or newer than this runner."""
    try:
        file = pq.ParquetFile(path)
        written = int((file.metadata.metadata or {}).get(b"schema", b"1"))
        if written > rows.SCHEMA_VERSION:
            return None
        return file.read([*known], use_threads=False)  # a column it lacks is passed over
    except (pa.ArrowException, OSError):
        return None


def _with_keys(part: pa.Table, experiment: str, run: str) -> pa.Table:
    for name, value in (("run", run), ("experiment", experiment)):
        part = part.add_column(0, name, pa.array([value] * part.num_rows, pa.string()))
    return part
