"""Frames as text: numbers with the digits that mean something, lines that fit a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import pandas as pd
from tabulate import tabulate

from runner.tables import Centre

Style = Literal["simple", "github"]

WIDTH: Final = 140
"""Columns of a terminal; a wider table is cut into parts that repeat its keys."""
_SENTENCES: Final = (58, 46, 36, 30)
"""How wide a sentence in a cell may be: the first that lets the table fit, else it is cut."""
_ABREAST: Final = 5
_MOST: Final = 30
_HEADING: Final = 2
"""Spaces that tabulate puts beside a heading."""


def grid(frame: pd.DataFrame, style: Style, keys: int = 2) -> str:
    """Return a frame as a text grid, in parts where it is too wide for a terminal.

    Args:
        frame: what is shown; a tuple in a cell is one value for each boot.
        style: plain, or Markdown, which is never wrapped or cut.
        keys: how many columns, from the left, each part repeats.
    """
    if style == "github":
        columns = {name: [told(value) for value in frame[name]] for name in frame.columns}
        return _part(frame, columns, style)
    columns, parts = _fitting(frame, keys)
    return "\n\n".join(_part(frame[part], {n: columns[n] for n in part}, style) for part in parts)


def _fitting(frame: pd.DataFrame, keys: int) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Return the cells as text and the columns of each part: sentences narrow before a cut."""
    tried = []
    for wrap in _SENTENCES:
        columns = {
            name: [told(value, wrap=wrap) for value in frame[name]] for name in frame.columns
        }
        tried.append((columns, _parts(columns, keys)))
    return next((one for one in tried if len(one[1]) == 1), tried[0])


def _part(frame: pd.DataFrame, columns: dict[str, list[str]], style: Style) -> str:
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    if style == "github":
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    aligned = ["right" if is_numeric(frame[name]) else "left" for name in columns]
    return tabulate(
        rows, headers=list(columns), tablefmt=style, colalign=aligned, disable_numparse=True
    )


def _parts(columns: dict[str, list[str]], keys: int) -> list[list[str]]:
    """Return the columns of each part: as many as fit beside the keys."""
    widths = {name: _width(name, cells) for name, cells in columns.items()}
    first, rest = list(columns)[:keys], list(columns)[keys:]
    room = WIDTH - sum(widths[name] for name in first)
    parts: list[list[str]] = [[]]
    for name in rest:
        used = sum(widths[other] for other in parts[-1])
        if parts[-1] and used + widths[name] > room:
            parts.append([])
        parts[-1].append(name)
    return [[*first, *part] for part in parts]


def _width(name: str, cells: Sequence[str]) -> int:
    lines = (line for cell in cells for line in cell.split("\n"))
    return max([len(name) + _HEADING, *(len(line) for line in lines)]) + 2


def told(value: Any, *, wrap: int = 0) -> str:
    """Return one cell of a table as text, in lines of `wrap` columns; 0 never breaks it."""
    if isinstance(value, tuple):
        return _each(value, wrap=wrap)
    if isinstance(value, Centre):
        return _centre(value)
    if missing(value):
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (int, float)):
        return number(float(value))
    return _folded(str(value), wrap)


def _folded(text: str, width: int) -> str:
    if not width:
        return text
    return textwrap.fill(text, width, break_on_hyphens=False, break_long_words=False)


def wrapped(line: str, indent: str = "") -> str:
    """Return a sentence in lines that fit a terminal."""
    return textwrap.fill(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def number(value: float) -> str:
    """Return a number with three significant digits at least, and no digit that means nothing."""
    size = abs(value)
    if value == int(value) and size < 1e15:
        return f"{int(value):,}".replace(",", " ") if size >= 10_000 else str(int(value))
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:.{digits}f}"


def missing(value: Any) -> bool:
    """Tell whether a cell holds nothing."""
    return value is None or (not isinstance(value, (tuple, Centre)) and bool(pd.isna(value)))


def _each(values: tuple[Any, ...], *, wrap: int) -> str:
    shown = [told(value) for value in values[:_MOST]]
    if len(values) > _MOST:
        shown.append(f"and {len(values) - _MOST} more, see --format csv")
    if not wrap:
        return " / ".join(shown)
    lines = (shown[start : start + _ABREAST] for start in range(0, len(shown), _ABREAST))
    return " /\n".join(" / ".join(line) for line in lines)


def _centre(value: Centre) -> str:
    low, high = number(value.low), number(value.high)
    if value.middle is None:
        return f"[{low} - {high}]"
    middle = number(value.middle)
    if value.boots == 1:
        return f"{middle} (single)"
    return middle if low == high else f"{middle} [{low} - {high}]"


def is_numeric(column: pd.Series[Any]) -> bool:
    """Tell whether a column holds numbers alone, of one boot or of several."""
    known = [value for value in column if not missing(value)]
    return bool(known) and all(
        isinstance(value, (int, float, tuple, Centre)) and not isinstance(value, bool)
        for value in known
    )


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without compound cells: a centre is columns, boots are joined by `;`."""
    columns: dict[str, list[Any]] = {}
    for name in frame.columns:
        values = list(frame[name])
        if any(isinstance(value, Centre) for value in values):
            before, _, after = str(name).partition(" [")
            short = after.partition("] ")[2] or before
            for part in ("middle", "low", "high", "boots"):
                heading = before if part == "middle" else part
                own = f"{short} {heading}" if heading != short else short
                columns[own] = [getattr(value, part, None) for value in values]
        else:
            columns[str(name)] = [_joined(value) for value in values]
    return pd.DataFrame(columns)


def records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield rows for JSON: each boot's value in a list, a centre as columns, null for nothing."""
    flat = plain(frame)
    for place, row in enumerate(flat.to_dict("records")):
        given: dict[str, Any] = {}
        for name, value in row.items():
            held = frame[name].iloc[place] if name in frame.columns else value
            given[str(name)] = _json(held)
        yield given


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(inner) for inner in value]
    if missing(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _joined(value: Any) -> Any:
    if isinstance(value, tuple):
        return ";".join("" if missing(inner) else str(inner) for inner in value)
    return value
