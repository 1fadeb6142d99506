"""Complaints about an experiment file: where, what is wrong, what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

Place = tuple[str | int, ...]
"""Path of a key, as `("loads", 0, "concurrency")`."""

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing wrong in a file."""

    place: Place
    sentence: str

    def text(self, file: str, lines: Sequence[tuple[Place, int]]) -> str:
        """Return it as `file:line: place: sentence`."""
        line = line_of(self.place, lines)
        where = f"{file}:{line}" if line else file
        return (
            f"{where}: {spelled(self.place)}: {self.sentence}"
            if self.place
            else (f"{where}: {self.sentence}")
        )


def spelled(place: Place) -> str:
    """Return a place as a reader writes it, `loads[0].concurrency`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def key_lines(text: str) -> list[tuple[Place, int]]:
    """Return where each table header and key of a TOML text stands: (place, line from 1)."""
    found: list[tuple[Place, int]] = []
    table: Place = ()
    counts: dict[Place, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _table(header.group(1), _parts(header.group(2)), counts)
            found.append((table, number))
        elif key := _KEY.match(line):
            found.append((table + _parts(key.group(1)), number))
    return found


def line_of(place: Place, lines: Sequence[tuple[Place, int]]) -> int | None:
    """Return the line of the longest known beginning of a place, None when nothing is known."""
    for length in range(len(place), 0, -1):
        for known, line in lines:
            if known == place[:length]:
                return line
    return None


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a sentence that names what may have been meant, or lists what there is."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known here: {', '.join(words)}." if words else ""


def of_validation(
    error: ValidationError, model: type[BaseModel], at: Place = ()
) -> list[Complaint]:
    """Return pydantic's findings as complaints; `at` is the model's own place in the file."""
    return [_complaint(dict(finding), model, at) for finding in error.errors()]


def _complaint(finding: dict[str, Any], model: type[BaseModel], at: Place) -> Complaint:
    place = tuple(finding["loc"])
    last = str(place[-1]) if place else ""
    kind, given = finding["type"], finding.get("input")
    if kind == "extra_forbidden":
        sentence = f"unknown key. {suggestion(last, _keys_at(model, place[:-1]))}".rstrip()
    elif kind == "missing":
        sentence = f"is missing; write `{last} = ...`"
    elif kind == "value_error":
        sentence = str(finding["ctx"]["error"])
    else:
        message = str(finding["msg"])
        sentence = f"{message[0].lower()}{message[1:]}; found {_short(given)}"
    return Complaint(place=at + _without_branches(place), sentence=sentence)


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _without_branches(place: Place) -> Place:
    """Drop the names pydantic adds for the branches of a union (`int`, `tuple[...]`, a model)."""
    branch = re.compile(r"^(int|float|str|bool|tuple|constrained-|function-|[A-Z]\w+$).*")
    return tuple(part for part in place if isinstance(part, int) or not branch.match(part))


def _keys_at(model: type[BaseModel], place: Place) -> list[str]:
    current: Any = model
    for part in place:
        current = _inside(current, part)
    return [key for kind in _models(current) for key in kind.model_fields]


def _inside(annotation: Any, part: str | int) -> Any:
    for kind in _models(annotation):
        if isinstance(part, str) and part in kind.model_fields:
            return kind.model_fields[part].annotation
    arguments = [a for a in get_args(annotation) if a is not Ellipsis and a is not type(None)]
    if get_origin(annotation) is dict:
        return arguments[1]
    if isinstance(part, int) and arguments:
        return arguments[0]
    return annotation


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) not in {dict, tuple, list}:
        for argument in get_args(annotation):
            yield from _models(argument)


def _parts(dotted: str) -> Place:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _table(brackets: str, parts: Place, counts: dict[Place, int]) -> Place:
    """Number the entries of an array of tables, and of the one that a sub-table belongs to."""
    place: Place = ()
    for depth, part in enumerate(parts, start=1):
        place += (part,)
        is_last = depth == len(parts)
        if is_last and brackets == "[[":
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place += (counts[place],)
    return place
