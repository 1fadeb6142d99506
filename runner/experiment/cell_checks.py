"""What the keys of a cell can still get wrong: names, paths, cores, and secrets given by value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engines.causes import CATALOGUE as CAUSES
from runner.experiment import CellKeys
from runner.experiment.complaints import Complaint, suggestion
from runner.experiment.places import Place

_SECRET = re.compile(
    r"(?:.*[_-])?(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(?:API|ACCESS|SECRET|PRIVATE)[_-]?KEY)",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CORES = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*")
_NO_IMAGE = re.compile(r"\s|[A-Z].*/")


def cell_complaints(place: Place, keys: CellKeys) -> Iterator[Complaint]:
    """Yield complaints about a table of cell keys that stands at a place."""
    yield from _secrets(place, keys)
    yield from cores_complaints((*place, "cpus"), keys.cpus)
    for key in ("model", "image"):
        if (text := getattr(keys, key)) is not None and (not text or text != text.strip()):
            yield Complaint(place=(*place, key), sentence=f'must be a name; found "{text}"')
    if keys.image and _NO_IMAGE.search(keys.image):
        sentence = f'"{keys.image}" is no image reference; write "name:tag" or "name@sha256:..."'
        yield Complaint(place=(*place, "image"), sentence=sentence)
    yield from folder_complaints((*place, "model"), keys.model)
    for target, source in keys.mounts.items():
        if not target.startswith("/"):
            sentence = 'a mount is "/path/in/container" = "path on this machine"'
            yield Complaint(place=(*place, "mounts", target), sentence=sentence)
        yield from folder_complaints((*place, "mounts", target), source)
    if isinstance(keys.gpus, tuple) and len(set(keys.gpus)) < len(keys.gpus):
        yield Complaint(place=(*place, "gpus"), sentence="the same GPU is there twice")
    for number, name in enumerate(keys.gpus if isinstance(keys.gpus, tuple) else ()):
        if not name.startswith(("GPU-", "MIG-")):
            sentence = f'"{name}" is no UUID; see `nvidia-smi -L`, or write how many: gpus = 1'
            yield Complaint(place=(*place, "gpus", number), sentence=sentence)
    if keys.expect and keys.expect.cause is not None:
        yield from _expected((*place, "expect", "cause"), keys.expect.outcome, keys.expect.cause)


def _secrets(place: Place, keys: CellKeys) -> Iterator[Complaint]:
    for name in keys.env:
        if not _VARIABLE.fullmatch(name):
            yield Complaint(place=(*place, "env", name), sentence="is no name of a variable")
        elif _SECRET.fullmatch(name):
            advice = f'export it and write secrets = ["{name}"]'
            sentence = f"a secret's value never stands in a file; {advice}"
            yield Complaint(place=(*place, "env", name), sentence=sentence)
    for flag, value in keys.flags.items():
        if _SECRET.fullmatch(flag) and not isinstance(value, bool):
            advice = "use the variable that the server reads, by secrets = [...]"
            sentence = f"a secret's value never stands in a file or on a command line; {advice}"
            yield Complaint(place=(*place, "flags", flag), sentence=sentence)
    for number, name in enumerate(keys.secrets):
        if not _VARIABLE.fullmatch(name):
            sentence = "takes names of variables only, never a value"
            yield Complaint(place=(*place, "secrets", number), sentence=sentence)


def cores_complaints(place: Place, cpus: str | None) -> Iterator[Complaint]:
    """Complain of a list of cores that names none."""
    if cpus is None:
        return
    ends = [part.split("-") for part in cpus.split(",")] if _CORES.fullmatch(cpus) else []
    if not ends or any(int(part[0]) > int(part[-1]) for part in ends):
        yield Complaint(place=place, sentence=f'names no cores; write "0-3,5", found "{cpus}"')


def folder_complaints(place: Place, path: str | None) -> Iterator[Complaint]:
    """Complain of a path in a home folder that does not exist."""
    if path is None or not path.startswith("~"):
        return
    try:
        Path(path).expanduser()
    except RuntimeError:
        yield Complaint(place=place, sentence=f'"{path}": there is no such user; write the path')


def _expected(place: Place, outcome: str, cause: str) -> Iterator[Complaint]:
    if outcome == "done":
        yield Complaint(place=place, sentence='a cause goes with outcome = "failed"')
    elif cause not in CAUSES:
        yield Complaint(place=place, sentence=f"unknown cause. {suggestion(cause, CAUSES)}")
