"""What the client adds by itself through a port that Docker publishes, its proxy included."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Final

from runner.launchers import Launch, Launcher, LaunchError, Mount
from runner.load.floor import Floor, floor
from runner.load.golden import Plan
from runner.load.golden.process import Golden

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_SERVER: Final = "/golden"
_TRUTH: Final = "/truth"
_START_S: Final = 30.0
_STOP_S: Final = 5.0


def published_floor(
    launcher: Launcher, launch: Launch, *, workers: int = 1, cpus: tuple[int, ...] | None = None
) -> Floor | None:
    """Measure the client's floor against the golden server in a container, as an engine's is.

    Args:
        launcher: starts containers.
        launch: a boot's; its image lends the Python, its labels say whose the container is.
        workers: worker processes, as the load has.
        cpus: their cores.

    Returns:
        The floor; None where the image holds no Python that runs the golden server.
    """
    try:
        serve = partial(_served, launcher, launch)
        return floor(workers=workers, cpus=cpus, serve=serve)
    except (LaunchError, OSError):
        return None


@contextlib.contextmanager
def _served(
    launcher: Launcher, launch: Launch, plan: Plan, truth: Path, *, cpu: int | None = None
) -> Iterator[Golden]:
    """Run a golden server in a container for as long as the context lasts."""
    del cpu  # as the engine's own: `launch` has them
    with tempfile.TemporaryDirectory(prefix="runner-golden-") as name:
        log = Path(name, "log")
        server = launcher.start(golden_launch(launch, plan, truth), log)
        try:
            _wait_for_port(log)
            yield Golden(port=server.load_port, host=server.load_host, file=truth)
        finally:
            server.stop(_STOP_S)
            server.remove()


def golden_launch(launch: Launch, plan: Plan, truth: Path) -> Launch:
    """Return a boot's launch with the golden server in the engine's place."""
    words = ["-m", "runner.load.golden", "--host", "0.0.0.0", "--port", str(launch.port)]  # noqa: S104 - inside its container
    words += ["--plan", json.dumps(asdict(plan)), "--truth", f"{_TRUTH}/{truth.name}"]
    return replace(
        launch,
        name=f"{launch.name}-floor",
        entrypoint="python3",
        argv=tuple(words),
        env={"PYTHONPATH": _SERVER, "PYTHONDONTWRITEBYTECODE": "1"},
        secrets=(),
        gpus=0,
        mounts=(
            Mount(source=_PACKAGE, target=f"{_SERVER}/{_PACKAGE.name}"),
            Mount(source=truth.parent, target=_TRUTH, read_only=False),
        ),
    )


def _wait_for_port(log: Path) -> None:
    """Wait until the server has said its port; a proxy would take connections before that."""
    deadline_s = time.monotonic() + _START_S
    while not any(line.strip().isdigit() for line in log.read_bytes().splitlines()):
        if time.monotonic() > deadline_s:
            raise OSError(f"the golden server did not start: {log.read_bytes()[-300:]!r}")
        time.sleep(0.05)
