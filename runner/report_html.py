"""A report as one HTML file that needs nothing else: tables, sentences, doubts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

from runner.doubts import ADVICE
from runner.tables import Shown, Table
from runner.tables.grid import is_numeric, told

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 1rem 0 }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .7rem; text-align: left }
td { vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.label { background: #fff3cd; padding: .5rem 1rem; font-weight: 600 }
.note { color: #555 }
"""


def page(
    title: str,
    labels: Sequence[str],
    tables: Iterable[tuple[Table, Shown]],
    doubts: Mapping[str, Sequence[str]],
) -> str:
    """Return tables as a page; every word of it is escaped, for labels and logs may hold anything.

    Args:
        title: heading of the page.
        labels: what must be said before any figure.
        tables: what is shown.
        doubts: each with what was seen.
    """
    each = list(tables)
    links = "".join(f'<li><a href="#{t.name}">{escape(t.title)}</a></li>' for t, _ in each)
    parts = [f'<p class="label">{escape(line)}</p>' for line in labels]
    parts += [f"<ul>{links}</ul>", *(_table(table, shown) for table, shown in each)]
    parts += _doubts(doubts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(title)}</h1>\n{chr(10).join(parts)}\n</body></html>\n"
    )


def _table(table: Table, shown: Shown) -> str:
    frame = shown.frame
    heads = "".join(f"<th>{escape(str(name))}</th>" for name in frame.columns)
    numeric = [is_numeric(frame[name]) for name in frame.columns]
    rows = "\n".join(
        "<tr>" + "".join(_cell(value, right) for value, right in zip(row, numeric, strict=True))
        for row in zip(*(frame[name] for name in frame.columns), strict=True)
    )
    above = "".join(f"<p>{escape(line)}</p>" for line in shown.above)
    notes = "".join(f'<p class="note">{escape(line)}</p>' for line in shown.notes)
    return (
        f'<h2 id="{escape(table.name)}">{escape(table.title)}</h2>{above}'
        f"<table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table>{notes}"
    )


def _cell(value: object, right: bool) -> str:
    return f"<td{' class=number' if right else ''}>{escape(told(value))}</td>"


def _doubts(doubts: Mapping[str, Sequence[str]]) -> Iterator[str]:
    if not doubts:
        return
    yield "<h2>Doubts</h2><ul>"
    for name, seen in doubts.items():
        listed = escape("; ".join(dict.fromkeys(seen)))
        yield f"<li><b>{escape(name)}</b>: {listed}. <i>{escape(_advice(name))}</i></li>"
    yield "</ul>"


def _advice(name: str) -> str:
    return ADVICE[name][1] if name in ADVICE else ""
