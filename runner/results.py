"""Results as pandas frames: `runner.results(path)`. It reads files and changes none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from runner import rows
from runner.errors import ExperimentError


@dataclass
class Results:
    """The tables of one experiment, or of several, each read when first used.

    Columns are those of `runner.rows.TABLES`, with `experiment` and `run` before them.
    """

    folders: Sequence[Path]
    runs: Sequence[str] | None = None
    unreadable: list[Path] = field(default_factory=list)

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
    def requests(self) -> pd.DataFrame:
        """Return a row for each request; the largest table by far."""
        return self.table("requests")

    def table(self, name: str) -> pd.DataFrame:
        """Return a whole table; a file that cannot be read is listed in `unreadable`."""
        parts = [part for folder in self.folders for part in self._parts(folder, name)]
        empty = _with_keys(rows.schema(name).empty_table(), "", "")
        whole = pa.concat_tables([empty, *parts], promote_options="permissive")
        return whole.to_pandas()

    def _parts(self, folder: Path, name: str) -> Iterator[pa.Table]:
        for path in sorted((folder / name).glob("run=*/*.parquet")):
            run = path.parent.name.removeprefix("run=")
            if self.runs is not None and run not in self.runs:
                continue
            try:
                part = pq.ParquetFile(path).read()
            except (pa.ArrowException, OSError):
                self.unreadable.append(path)
                continue
            yield _with_keys(part, folder.name, run)


def results(path: str | Path, *, runs: Sequence[str] | None = None) -> Results:
    """Return the results below a path: a results folder, or one experiment's folder in it.

    Args:
        path: `results/` or `results/<experiment>/`.
        runs: only these runs; all by default.

    Raises:
        ExperimentError: there are no results at that path.
    """
    root = Path(path)
    folders = [root] if (root / "runs").is_dir() else sorted(p.parent for p in root.glob("*/runs"))
    if not folders:
        raise ExperimentError(
            f"{root}: no results here; run `runner exec` first, or correct the path"
        )
    return Results(folders=folders, runs=runs)


def latest_runs(path: str | Path) -> list[str]:
    """Return the newest run of each experiment below a path.

    Raises:
        ExperimentError: there are no results at that path.
    """
    newest = [
        max((folder / "runs").glob("*.json"), default=None) for folder in results(path).folders
    ]
    return [run.stem for run in newest if run is not None]


def _with_keys(part: pa.Table, experiment: str, run: str) -> pa.Table:
    for name, value in (("run", run), ("experiment", experiment)):
        part = part.add_column(0, name, pa.array([value] * part.num_rows, pa.string()))
    return part
