"""Complaints about an experiment file: where, what is wrong, what to write instead."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from runner.experiment.forms import Form, described, form_of, keys_of
from runner.experiment.places import Place, line_of, spelled

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])(i?)B?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing wrong in a file."""

    place: Place
    sentence: str

    def text(self, file: str, lines: Mapping[Place, int]) -> str:
        """Return it as `file:line: place: sentence`."""
        _, line = line_of(self.place, lines)
        parts = [f"{file}:{line}" if line else file, spelled(self.place), self.sentence]
        return ": ".join(part for part in parts if part)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a sentence that names what may have been meant, or lists what there is."""
    words = sorted(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known here: {', '.join(words)}." if words else ""


def findings_of(shape: Any, raw: object, at: Place = ()) -> list[Complaint]:
    """Return what is wrong in a TOML value that should be of a shape; nothing when it is right.

    Args:
        shape: a pydantic model, or any annotation.
        raw: the value as `tomllib` gives it, without dates. Nothing is converted: "8" is no number.
        at: where the value stands in the file.
    """
    try:
        TypeAdapter(shape).validate_json(json.dumps(raw), strict=True)
    except ValidationError as error:
        found = _of_findings(error, form_of(shape), raw)
        return [Complaint(place=at + one.place, sentence=one.sentence) for one in found]
    return []


def _of_findings(error: ValidationError, root: Form, raw: object) -> Iterator[Complaint]:
    """Yield one complaint for each mistake: a union is judged by the branch that was meant."""
    unions: dict[Place, Form] = {}
    for finding in error.errors(include_url=False):
        place, form, union = _followed(root, finding["loc"])
        if union is not None:
            unions[place] = union
        elif (sentence := _sentence(dict(finding), root, place, form)) is not None:
            yield Complaint(place=place, sentence=sentence)
    for place, union in unions.items():
        yield from _of_union(place, union, _at(raw, place))


def _followed(root: Form, loc: Place) -> tuple[Place, Form | None, Form | None]:
    """Return (place, its form, None), or the place and form of the first union on the way."""
    form: Form | None = root
    for depth, part in enumerate(loc):
        if form is not None and len(form.branches) > 1:
            return loc[:depth], form, form
        form = form.inside(part) if form is not None else None
    return loc, form, None


def _of_union(place: Place, union: Form, value: object) -> Iterator[Complaint]:
    branch = next((branch for branch in union.branches if branch.fits(value)), None)
    if branch is None:
        yield Complaint(place=place, sentence=_must_be(place, union, value))
        return
    for found in findings_of(branch.annotation, value, at=place):
        whole = found.place == place and not isinstance(value, (Mapping, list))
        sentence = _must_be(place, union, value) if whole else found.sentence
        yield Complaint(place=found.place, sentence=sentence)


def _sentence(finding: dict[str, Any], root: Form, place: Place, form: Form | None) -> str | None:
    kind, given = finding["type"], finding.get("input")
    if kind == "extra_forbidden":
        return unknown_key(place, keys_of(_form_at(root, place[:-1])), root)
    if kind == "missing":
        return f"is missing; write {_example(place, form)}"
    if kind == "value_error":
        return str(finding["ctx"]["error"])
    if kind == "too_short":
        # pydantic counts only elements that are right, so a list with a wrong one seems empty
        return None if given else f"is empty; write {_example(place, form)}"
    if form is None:
        return f"{finding['msg'].lower()}; found {_short(given)}"
    return _must_be(place, form, given)


def unknown_key(place: Place, known: Iterable[str], root: Form) -> str:
    """Return the sentence for a key that a table does not have: where it belongs, or what is close.

    Args:
        place: the key.
        known: keys of its table.
        root: form of the whole file, searched for the key's right table.
    """
    key = str(place[-1])
    table = _form_at(root, place[:-1])
    inner = [name for name in keys_of(table) if key in keys_of(_form_at(table, (name,)))]
    if inner and table != root:
        return f"unknown key here; write {inner[0]} = {{ {key} = ... }}"
    homes = [home for home, form in _tables(root) if form != table and key in keys_of(form)]
    if homes:
        return f"unknown key here; it belongs {' or '.join(homes)}"
    return f"unknown key. {suggestion(key, known)}".rstrip()


def _tables(root: Form) -> Iterator[tuple[str, Form]]:
    yield "at the top of the file, above the first [table]", root
    for key in keys_of(root):
        form = root.inside(key)
        if form is None:
            continue
        element = form.inside(0) if form.is_list else None
        if element is not None:
            yield f"in [[{key}]]", element
        elif form.model is not None:
            yield f"in [{key}]", form
        elif (named := form.inside("NAME")) is not None:
            yield f"in [{key}.NAME]", named


def _must_be(place: Place, form: Form, given: object) -> str:
    key = next((str(part) for part in reversed(place) if isinstance(part, str)), "")
    return f"must be {described(form)}; found {_short(given)}{_hint(key, form, given)}"


def _hint(key: str, form: Form, given: object) -> str:
    """Return what the writer may have meant: quotes too many or too few, or a size in words."""
    if isinstance(given, str):
        size = _SIZE.fullmatch(given)
        if key.endswith("_bytes") and size:
            return f". Bytes are a plain number: {key} = {_bytes(size)}"
        if any(branch.fits(_unquoted(given)) for branch in form.branches):
            return f". Write it without quotes: {given.strip()}"
    elif isinstance(given, (int, float)) and any(branch.fits("") for branch in form.branches):
        return f'. Write it in quotes: "{_short(given)}"'
    return ""


def _unquoted(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (bool, int, float)) else None


def _bytes(size: re.Match[str]) -> int:
    """Return a size in bytes; `8G` and `8GB` are decimal, `8GiB` is binary."""
    power = " KMGT".index(size[2].upper())
    return round(float(size[1]) * float((1024 if size[3] else 1000) ** power))


def _example(place: Place, form: Form | None) -> str:
    key = spelled(place)
    if form is None:
        return f"{place[-1]} = ..."
    element = form.inside(0)
    if form.is_list and element is not None and element.model is not None:
        return f"a table [[{key}]]"
    if form.model is not None or form.inside("NAME") is not None:
        return f"a table [{key}{'' if form.model else '.NAME'}]"
    return f"{place[-1]} = ... ({described(form)})"


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else _quoted(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _form_at(root: Form, place: Place) -> Form:
    form = root
    for part in place:
        form = form.inside(part) or Form(type=Any)
    return form


def _at(raw: object, place: Place) -> object:
    for part in place:
        raw = raw[part]  # type: ignore[index]  # pydantic reported this very place
    return raw
