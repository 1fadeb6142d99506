"""A report: the tables of some results as text, Markdown, HTML, CSV, JSON or Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from runner import tables
from runner.doubts import ADVICE
from runner.errors import ExperimentError
from runner.experiment.complaints import suggestion
from runner.report_html import page
from runner.stored.frames import Results
from runner.stored.parts import write_table
from runner.tables import Shown, Table
from runner.tables.grid import grid, plain, records, wrapped

Format = Literal["text", "markdown", "csv", "json", "html"]
_SEEN = 2


def report(
    results: Results,
    *,
    names: Sequence[str] = (),
    form: Format = "text",
) -> str:
    """Return the tables of some results.

    Args:
        results: what is reported.
        names: which tables; all that have something to show by default.
        form: how they are written.

    Raises:
        ExperimentError: a table of that name does not exist.
    """
    each = list(built(results, names))
    if not each:
        return "Nothing to show: no boot is stored yet.\n"
    said = labels(results)
    if form == "html":
        title = f"Results of {', '.join(folder.name for folder in results.folders)}"
        return page(title, said, each, _seen(each))
    parts = [render(table, shown, form, said) for table, shown in each]
    if form in {"csv", "json"}:
        return "\n".join(parts)
    head = [f"{line}\n" for line in said]
    return "\n".join([*head, *parts, *_legend(_seen(each), form)]) + "\n"


def _seen(each: Sequence[tuple[Table, Shown]]) -> dict[str, list[str]]:
    """Return each doubt of some tables with all that was seen, what takes figures away first."""
    doubts: dict[str, list[str]] = {}
    for _, shown in each:
        for name, seen in shown.doubts.items():
            doubts.setdefault(name, []).extend(seen)
    return dict(sorted(doubts.items(), key=lambda entry: _rank(entry[0])))


def built(results: Results, names: Sequence[str] = ()) -> Iterator[tuple[Table, Shown]]:
    """Yield each table that has something to show."""
    for name in names or tables.names():
        try:
            table = tables.get(name)
        except KeyError as error:
            hint = suggestion(name, tables.names())
            raise ExperimentError(f"there is no table {name!r}. {hint}") from error
        shown = table.build(results) if names or not table.asked else None
        if shown is not None:
            yield table, shown


def labels(results: Results) -> list[str]:
    """Return what must be said of all results before any figure."""
    cells, said = results.cells, []
    if bool(cells.simulated.fillna(False).any()):
        said.append("SIMULATED: these figures come from the simulated engine, not from a GPU.")
    if bool(cells.rehearsal.fillna(False).any()):
        said.append("REHEARSAL: these figures show that the experiment works; they answer nothing.")
        on_cpu = cells.gpus.eq(0) & ~cells.simulated.fillna(False).astype(bool)
        if bool((on_cpu & cells.rehearsal.fillna(False).astype(bool)).any()):
            said.append(
                "On a CPU there are no fp8 kernels, no CUDA graphs and no GPU memory: what a"
                " question turns on in them does not show here."
            )
    if results.unreadable:
        listed = ", ".join(str(path) for path in results.unreadable)
        said.append(f"Left out, damaged or written by a newer runner: {listed}")
    return said


def render(table: Table, shown: Shown, form: Format, said: Sequence[str] = ()) -> str:
    """Return one table as text.

    Args:
        table: which one.
        shown: what it shows.
        form: how it is written.
        said: what must be said before any figure; a program reads it beside the figures.
    """
    if form == "csv":
        buffer = io.StringIO()
        flat = plain(shown.frame)
        marks = [line.partition(":")[0].lower() for line in said if line[:1].isupper()]
        marked = flat.assign(**{"no measurement": " ".join(marks)}) if marks else flat
        marked.to_csv(buffer, index=False)
        return buffer.getvalue()
    if form == "json":
        return json.dumps(_entry(table, shown, said), ensure_ascii=False) + "\n"
    return _markdown(table, shown) if form == "markdown" else _text(table, shown)


def write_parquet(results: Results, folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Write each table as one Parquet file of a folder; return the files.

    Values of boots are lists, medians are columns; sentences and doubts are in the file's metadata
    under the keys that JSON has.

    Raises:
        ExperimentError: a table of that name does not exist.
        DiskFull: there is no room.
    """
    written, marks = [], labels(results)
    for table, shown in built(results, names):
        flat = _columns(list(records(shown.frame)))
        said = {key: value for key, value in _entry(table, shown, marks).items() if key != "rows"}
        metadata = {**(flat.schema.metadata or {}), b"report": json.dumps(said).encode()}
        path = folder / f"{table.name}.parquet"
        write_table(path, flat.replace_schema_metadata(metadata))
        written.append(path)
    return written


def _columns(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return rows as columns; one that holds words beside numbers becomes words."""
    names = list(rows[0]) if rows else []
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows] for name in names}
    made: dict[str, Any] = {}
    for name, values in columns.items():
        try:
            made[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            made[name] = pa.array([None if one is None else str(one) for one in values])
    return pa.table(made)


def _entry(table: Table, shown: Shown, said: Sequence[str]) -> dict[str, object]:
    return {
        "table": table.name,
        "title": table.title,
        "labels": [*said],
        "above": [*shown.above],
        "rows": [*records(shown.frame)],
        "notes": [*shown.notes],
        "doubts": {name: [*seen] for name, seen in shown.doubts.items()},
    }


def _legend(doubts: Mapping[str, Sequence[str]], form: Format) -> Iterator[str]:
    """Yield each doubt once: what was seen, and what to do about it."""
    if not doubts:
        return
    yield "## Doubts\n" if form == "markdown" else "Doubts"
    for name, seen in doubts.items():
        each = [sentence.rstrip(".") for sentence in dict.fromkeys(seen)]
        more = [f"and {len(each) - _SEEN} more"] if len(each) > _SEEN else []
        listed = "; ".join([*each[:_SEEN], *more])
        said = f"- {name}: {listed}. {ADVICE[name][1] if name in ADVICE else ''}".rstrip()
        yield said if form == "markdown" else wrapped(said, indent="  ")


def _rank(name: str) -> int:
    """Return the place of a doubt: what takes figures away first, notes last."""
    severities = ("void", "suspect", "note")
    return severities.index(ADVICE[name][0]) if name in ADVICE else len(severities)


def _text(table: Table, shown: Shown) -> str:
    above, notes = ([wrapped(line) for line in lines] for lines in (shown.above, shown.notes))
    lines = [table.title, *above, grid(shown.frame, "simple", shown.keys), *notes]
    return "\n".join(lines) + "\n"


def _markdown(table: Table, shown: Shown) -> str:
    above = [f"{line}\n" for line in shown.above]
    notes = [f"\n{line}" for line in shown.notes]
    lines = [f"## {table.title}\n", *above, grid(shown.frame, "github"), *notes]
    return "\n".join(lines) + "\n"
