"""A report: the tables of some results as text, Markdown, CSV or JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
from tabulate import tabulate

from runner import tables
from runner.errors import ExperimentError
from runner.experiment.complaints import suggestion
from runner.results import Results
from runner.tables import Centre, Shown, Table

Format = Literal["text", "markdown", "csv", "json"]


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
    parts: list[str] = []
    doubts: dict[str, str] = {}
    for table, shown in built(results, names):
        parts.append(render(table, shown, form))
        doubts |= shown.doubts
    if not parts:
        return "Nothing to show: no boot is stored yet.\n"
    if form in {"csv", "json"}:
        return "\n".join(parts)
    head = [f"{line}\n" for line in labels(results)]
    return "\n".join([*head, *parts, *_legend(doubts, form)])


def built(results: Results, names: Sequence[str] = ()) -> Iterator[tuple[Table, Shown]]:
    """Yield each table that has something to show."""
    for name in names or tables.names():
        try:
            table = tables.get(name)
        except KeyError as error:
            hint = suggestion(name, tables.names())
            raise ExperimentError(f"there is no table {name!r}. {hint}") from error
        shown = table.build(results)
        if shown is not None:
            yield table, shown


def labels(results: Results) -> list[str]:
    """Return what must be said of all results before any figure."""
    cells, said = results.cells, []
    if bool(cells.simulated.fillna(False).any()):
        said.append("SIMULATED: these figures come from the simulated engine, not from a GPU.")
    if bool(cells.rehearsal.fillna(False).any()):
        said.append("REHEARSAL: these figures show that the experiment works; they answer nothing.")
    if results.unreadable:
        listed = ", ".join(str(path) for path in results.unreadable)
        said.append(f"Left out, for they cannot be read: {listed}")
    return said


def render(table: Table, shown: Shown, form: Format) -> str:
    """Return one table as text."""
    if form == "csv":
        buffer = io.StringIO()
        plain(shown.frame).to_csv(buffer, index=False)
        return buffer.getvalue()
    if form == "json":
        rows = json.loads(plain(shown.frame).to_json(orient="records"))
        entry = {
            "table": table.name,
            "above": [*shown.above],
            "rows": rows,
            "notes": [*shown.notes],
        }
        return json.dumps(entry, ensure_ascii=False) + "\n"
    return _markdown(table, shown) if form == "markdown" else _text(table, shown)


def _legend(doubts: Mapping[str, str], form: Format) -> Iterator[str]:
    if doubts:
        yield "## Doubts\n" if form == "markdown" else "Doubts"
        yield from (f"- {name}: {said}" for name, said in doubts.items())


def number(value: float) -> str:
    """Return a number with three significant digits at least, and no digit that means nothing."""
    size = abs(value)
    if value == int(value) and size < 1e15:
        return f"{int(value):,}".replace(",", " ") if size >= 10_000 else str(int(value))
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{digits}f}"


def _text(table: Table, shown: Shown) -> str:
    lines = [table.title, *shown.above, _grid(shown.frame, "simple"), *shown.notes]
    return "\n".join(lines) + "\n"


def _markdown(table: Table, shown: Shown) -> str:
    above = [f"{line}\n" for line in shown.above]
    notes = [f"\n{line}" for line in shown.notes]
    lines = [f"## {table.title}\n", *above, _grid(shown.frame, "github"), *notes]
    return "\n".join(lines) + "\n"


def _grid(frame: pd.DataFrame, style: str) -> str:
    cells = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
    aligned = ["right" if _is_numeric(frame[name]) else "left" for name in frame.columns]
    return tabulate(
        cells, headers=list(frame.columns), tablefmt=style, colalign=aligned, disable_numparse=True
    )


def _is_numeric(column: pd.Series[Any]) -> bool:
    known = [value for value in column if not _missing(value)]
    return bool(known) and all(
        isinstance(value, (int, float, tuple, Centre)) and not isinstance(value, bool)
        for value in known
    )


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return " / ".join(_cell(inner) for inner in value)
    if isinstance(value, Centre):
        middle, low, high = number(value.median), number(value.low), number(value.high)
        return middle if low == high else f"{middle} [{low} - {high}]"
    if _missing(value):
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return number(float(value)) if isinstance(value, (int, float)) else str(value)


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without compound cells: a centre is three columns, boots are joined by `;`."""
    columns: dict[str, list[Any]] = {}
    for name in frame.columns:
        values = list(frame[name])
        if any(isinstance(value, Centre) for value in values):
            short = str(name).removeprefix("median [range] ")
            for part in ("median", "low", "high"):
                columns[f"{short} {part}"] = [getattr(value, part, None) for value in values]
        else:
            columns[str(name)] = [_joined(value) for value in values]
    return pd.DataFrame(columns)


def _joined(value: Any) -> Any:
    if isinstance(value, tuple):
        return ";".join("" if _missing(inner) else str(inner) for inner in value)
    return value


def _missing(value: Any) -> bool:
    return value is None or (not isinstance(value, (tuple, Centre)) and bool(pd.isna(value)))
