"""Holds every cell's flags against its image's own help text, before any GPU is used."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from engines.help_flags import HELP, unknown_flags
from runner.errors import ExperimentError, HostError
from runner.launchers import Launch, Launcher, LaunchError
from runner.plan.cells import Cell
from runner.preflight.build import Build
from runner.stored.parts import write_text

HELP_S: Final = 300.0
"""An engine imports its whole library before it prints its flags."""
CACHE: Final = Path("~/.cache/runner/help")


def check_flags(
    cells: Iterable[Cell],
    builds: Mapping[str, Build],
    launcher: Launcher,
    cache: Path = CACHE,
) -> None:
    """Ask each image once for its flags, and refuse cells that send others.

    Args:
        cells: cells of containers; simulated ones and other launchers are passed over.
        builds: what each cell became, by `cell_id`.
        launcher: starts the container that prints the help text.
        cache: folder where help texts are kept by image digest.

    Raises:
        ExperimentError: an image does not know a flag; the message names all of them.
        HostError: an image prints no help text.
    """
    found = []
    for cell in cells:
        if cell.launcher != "docker" or cell.simulated or cell.engine.name not in HELP:
            continue
        text = _help_of(cell, builds[cell.cell_id].image_digest, launcher, cache.expanduser())
        sent = cell.arguments("127.0.0.1", cell.engine.port).argv
        if unknown := unknown_flags(sent, text):
            found.append(f"{cell.label}: {cell.keys.image} does not know {', '.join(unknown)}")
    if found:
        raise ExperimentError(
            "\n".join([*found, "Correct the flags, or give another image; nothing was started"])
        )


def _help_of(cell: Cell, digest: str, launcher: Launcher, cache: Path) -> str:
    path = cache / f"{cell.engine.name}-{digest.rpartition(':')[2]}.txt"
    if not path.is_file():
        text = _printed(cell, digest, launcher, path.with_suffix(".log"))
        write_text(path, text)
    return path.read_text(encoding="utf-8")


def _printed(cell: Cell, digest: str, launcher: Launcher, log: Path) -> str:
    launch = Launch(
        name=f"runner-help-{uuid.uuid4().hex[:12]}",
        image=digest or cell.keys.image,
        argv=(*cell.engine.image_program, *HELP[cell.engine.name]),
        port=cell.engine.port,
        env={"NO_COLOR": "1", "COLUMNS": "200"},
    )
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        server = launcher.start(launch, log)
    except LaunchError as error:
        raise HostError(f"{cell.keys.image}: {error}") from error
    try:
        deadline_s = time.monotonic() + HELP_S
        while server.exited() is None and time.monotonic() < deadline_s:
            time.sleep(0.2)
        how = server.exited()
    finally:
        server.stop(1)
        server.remove()
    text = log.read_text(encoding="utf-8", errors="replace")
    log.unlink()
    if how is None or how.code != 0:
        raise HostError(
            f"{cell.keys.image}: it printed no help within {HELP_S:g} s (exit code"
            f" {how.code if how else 'none'}); leave out --check-flags"
        )
    return text
