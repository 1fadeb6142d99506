"""Stored requests as timelines again, so that every figure can be had from the results alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from runner.load import Timeline

_NAMES: Final = tuple(field.name for field in fields(Timeline))


def timelines_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[Timeline]:
    """Yield the timelines of rows of `requests`; times count from the window's opening.

    Rows may come from Arrow or from a pandas frame, where what is missing is NaN.
    """
    for row in rows:
        values = {name: _plain(row[name]) for name in _NAMES if name in row}
        yield Timeline(**values)


def _plain(value: Any) -> Any:
    """Return a cell as the timeline had it: lists as tuples, missing as None, counts as whole."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(plain, list | tuple):
        return tuple(plain)
    if isinstance(plain, float):
        return None if math.isnan(plain) else int(plain)
    return plain
