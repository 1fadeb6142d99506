"""From a file to an `Experiment`, or to one error that lists every complaint with its line."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runner.errors import ExperimentError
from runner.experiment import Experiment
from runner.experiment.checks import complaints_of
from runner.experiment.complaints import Complaint, findings_of
from runner.experiment.places import WORD, Place, line_of, places_of
from runner.experiment.unusable import unusable

_SHOWN = 40


def read(path: Path, *, rehearse: bool = False) -> Experiment:
    """Read an experiment file.

    Args:
        path: the TOML file.
        rehearse: lay its `[rehearse]` table over the rest.

    Raises:
        ExperimentError: it cannot be read, or something in it is wrong; the message lists every
            complaint as `file:line: place: what is wrong and what to write instead`.
    """
    text = text_of(path)
    raw = parsed(text, path)
    found = complaints_about(raw)
    if found:
        raise error_of(found, text, path)
    overlay = raw.get("rehearse", {})
    if rehearse and not overlay:
        raise ExperimentError(f"{path}: it has no [rehearse] table; add one, or drop --rehearse")
    laid = overlaid(raw, overlay)
    if overlay and (found := complaints_about(laid)):
        raise error_of(_in_overlay(found, places_of(text)), text, path)
    experiment = _valid(laid if rehearse else raw)
    experiment._path = path
    experiment._rehearsal = rehearse
    return experiment


def complaints_about(raw: Mapping[str, Any]) -> list[Complaint]:
    """Return everything that is wrong in a parsed file, nothing when it is right."""
    found = unusable(raw)
    if found:
        return found
    found = findings_of(Experiment, raw)
    if not found:
        return complaints_of(_valid(raw))
    rest = _without([complaint.place for complaint in found], raw)
    if not findings_of(Experiment, rest):
        found += complaints_of(_valid(rest), whole=False)
    return found


def overlaid(raw: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return `raw` with `overlay` laid over it: tables are merged, anything else is replaced.

    So are `memory` and `expect`, which say one thing: half of one and half of another say nothing.
    """
    merged = dict(raw)
    for key, value in overlay.items():
        below = merged.get(key)
        merges = key not in {"memory", "expect"}
        if merges and isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = overlaid(below, value)
        else:
            merged[key] = value
    return merged


def text_of(path: Path) -> str:
    """Return the text of a file whose name may name results.

    Raises:
        ExperimentError: it cannot be read, or its name is no name.
    """
    # the name becomes a folder of the results, which must stay inside them
    if not WORD.fullmatch(path.stem):
        rule = "letters, digits, '_', '-' and '.', beginning with a letter or digit"
        raise ExperimentError(f"{path}: its name names the results; use {rule}")
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        message = f"{path}: it is not UTF-8 text ({error.reason}); save it as UTF-8"
        raise ExperimentError(message) from error


def parsed(text: str, path: Path) -> dict[str, Any]:
    """Return a TOML text as tables.

    Raises:
        ExperimentError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ExperimentError(f"{path}: it is nested too deep; write it flatter") from error
    except ValueError as error:  # also a number of thousands of digits
        raise ExperimentError(f"{path}{_line(error)}: it is not TOML: {error}") from error


def _line(error: ValueError) -> str:
    """Return the line that a TOML error names, as `:3`."""
    _, found, rest = str(error).rpartition("at line ")
    return f":{rest.split(',')[0]}" if found else ""


def _valid(raw: Mapping[str, Any]) -> Experiment:
    return Experiment.model_validate_json(json.dumps(raw), strict=True)


def _without(places: Iterable[Place], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file without the keys complained about, so that the rest can still be judged."""
    rest: dict[str, Any] = copy.deepcopy(dict(raw))
    for place in places:
        keys = [depth for depth, part in enumerate(place) if isinstance(part, str)]
        table: Any = rest
        for part in place[: keys[-1]] if keys else ():
            inside = isinstance(table, Mapping) and part in table
            indexed = isinstance(table, list) and isinstance(part, int) and part < len(table)
            table = table[part] if inside or indexed else None
        if keys and isinstance(table, dict):
            table.pop(place[keys[-1]], None)
    return {"question": "", "boots": 1, **rest}


def _in_overlay(complaints: Iterable[Complaint], lines: Mapping[Place, int]) -> list[Complaint]:
    """Return complaints about the laid file at the places of `[rehearse]` where it wrote them."""
    placed = []
    for complaint in complaints:
        inside: Place = ("rehearse", *complaint.place)
        deeper = line_of(inside, lines)[0] > line_of(complaint.place, lines)[0]
        place = inside if deeper else complaint.place
        placed.append(Complaint(place=place, sentence=complaint.sentence))
    return placed


def error_of(complaints: Iterable[Complaint], text: str, path: Path) -> ExperimentError:
    """Return complaints as one error, each with its line."""
    lines = places_of(text)
    ordered = sorted(complaints, key=lambda complaint: line_of(complaint.place, lines)[1] or 0)
    unique = list(dict.fromkeys(complaint.text(str(path), lines) for complaint in ordered))
    more = len(unique) - _SHOWN
    return ExperimentError("\n".join(unique[:_SHOWN] + [f"... and {more} more"] * (more > 0)))
