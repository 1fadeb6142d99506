"""From a file to an `Experiment`, or to one error that lists every complaint with its line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from runner.checks import complaints_of
from runner.complaints import Complaint, key_lines, of_validation
from runner.errors import ExperimentError
from runner.experiment import Experiment


def read(path: Path, *, rehearse: bool = False) -> Experiment:
    """Read an experiment file.

    Args:
        path: the TOML file.
        rehearse: lay its `[rehearse]` table over the rest.

    Raises:
        ExperimentError: it cannot be read, or something in it is wrong; the message lists every
            complaint as `file:line: place: what is wrong and what to write instead`.
    """
    text = _text(path)
    raw = _parsed(text, path)
    overlay = raw.get("rehearse", {})
    if rehearse and not overlay:
        raise ExperimentError(f"{path}: it has no [rehearse] table; add one, or drop --rehearse")
    experiment = _checked(overlaid(raw, overlay) if rehearse else raw, text, path)
    if overlay and not rehearse:
        _checked(overlaid(raw, overlay), text, path)
    experiment._path = path
    experiment._rehearsal = rehearse
    return experiment


def overlaid(raw: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return `raw` with `overlay` laid over it: tables are merged, anything else is replaced."""
    merged = dict(raw)
    for key, value in overlay.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = overlaid(below, value)
        else:
            merged[key] = value
    return merged


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path}: it is not UTF-8 text ({error.reason})") from error


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ExperimentError(f"{path}: it is not TOML: {error}") from error


def _checked(raw: Mapping[str, Any], text: str, path: Path) -> Experiment:
    try:
        experiment = Experiment.model_validate(raw)
    except ValidationError as error:
        raise _error(of_validation(error, Experiment), text, path) from error
    found = complaints_of(experiment)
    if found:
        raise _error(found, text, path)
    return experiment


def _error(complaints: list[Complaint], text: str, path: Path) -> ExperimentError:
    lines = key_lines(text)
    unique = dict.fromkeys(complaint.text(str(path), lines) for complaint in complaints)
    return ExperimentError("\n".join(unique))
