"""`runner export`: each stored table as one file, for tools that want no folders of parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import click
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from runner.errors import ExperimentError, RunnerError
from runner.stored import rows
from runner.stored.frames import Results, results
from runner.stored.parts import whole

Form = Literal["parquet", "csv"]
_SMALL: Final = ("cells", "boots", "facts", "loads", "capacity")


def export(
    found: Results, folder: Path, *, tables: Sequence[str] = _SMALL, form: Form = "parquet"
) -> list[Path]:
    """Write each table of some results as one file, with `experiment` and `run` as columns.

    Memory holds one part at a time. In CSV, lists are JSON-like text.

    Args:
        found: what is exported.
        folder: where to.
        tables: names of stored tables.
        form: of the files.

    Raises:
        DiskFull: there is no room.
    """
    written = []
    for name in tables:
        path = folder / f"{name}.{form}"
        schema = rows.schema(name)
        for column in ("run", "experiment"):
            schema = schema.insert(0, pa.field(column, pa.string()))
        with whole(path) as draft:
            _write(draft, found.parts(name), schema, form)
        written.append(path)
    return written


def _write(path: Path, parts: Iterator[pa.Table], schema: pa.Schema, form: Form) -> None:
    if form == "parquet":
        with pq.ParquetWriter(path, schema, compression="zstd") as writer:
            for part in parts:
                writer.write_table(_filled(part, schema))
        return
    flat = pa.schema([pa.field(f.name, _plain(f.type)) for f in schema])
    with pcsv.CSVWriter(path, flat) as writer:
        for part in parts:
            writer.write_table(_flat(_filled(part, schema), flat))


def _filled(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a part with every column of today; what an older file lacks is null."""
    columns = [
        part[field.name].cast(field.type)
        if field.name in part.column_names
        else pa.nulls(part.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_list(kind) else kind


def _flat(part: pa.Table, flat: pa.Schema) -> pa.Table:
    columns: list[Any] = []
    for field, column in zip(flat, part.columns, strict=True):
        if pa.types.is_list(column.type):
            text = [None if value is None else str(value) for value in column.to_pylist()]
            columns.append(pa.array(text, pa.string()))
        else:
            columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=flat)


@click.command("export")
@click.argument("path", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--table", "names", multiple=True, help="A stored table; small ones by default.")
@click.option("--run", "runs", multiple=True, help="Only this run; all by default.")
@click.option("--format", "form", type=click.Choice(["parquet", "csv"]), default="parquet")
def command(
    path: Path, out: Path, names: tuple[str, ...], runs: tuple[str, ...], form: Form
) -> None:
    """Write the stored tables of PATH to a folder, one file each.

    \b
    runner export results/fp8 --out fp8 --table loads --table requests --format csv
    """
    try:
        for name in names:
            if name not in rows.TABLES:
                raise ExperimentError(f"no table {name!r}; there are {', '.join(rows.TABLES)}")
        found = results(path, runs=runs or None)
        for written in export(found, out, tables=names or _SMALL, form=form):
            click.echo(str(written))
    except RunnerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
