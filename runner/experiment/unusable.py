"""Values that TOML allows and no key of an experiment takes: found before anything reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runner.experiment.complaints import Complaint
from runner.experiment.places import Place

_DEEPEST = 30
_LARGEST = 2**63
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def unusable(raw: Mapping[str, Any]) -> list[Complaint]:
    """Return complaints about dates, numbers without end, control characters and deep nesting."""
    return list(_unusable((), raw))


def _unusable(place: Place, value: object) -> Iterator[Complaint]:
    if len(place) > _DEEPEST:
        yield Complaint(place=place[:1], sentence="is nested too deep; write it flatter")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _key(place, key)
            yield from _unusable((*place, key), inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _unusable((*place, number), inner)
    else:
        sentence = _wrong(value)
        if sentence:
            yield Complaint(place=place, sentence=sentence)


def _key(place: Place, key: str) -> Iterator[Complaint]:
    if not key or not key.isprintable():
        yield Complaint(place=place, sentence=f"a key needs a plain name; found {key!r}")


def _wrong(value: object) -> str | None:
    if isinstance(value, (bool, str)):
        control = isinstance(value, str) and _CONTROL.search(value)
        return "holds a control character; write plain text" if control else None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"must be a finite number; found {value}"
    if isinstance(value, int):
        return None if -_LARGEST <= value < _LARGEST else "is a number beyond 64 bits"
    return f"is a date or time, which no key takes; found {value}"
