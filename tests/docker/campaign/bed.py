"""A test bed: one experiment of the simulated engine, its results, and `exec` in a process to kill.

Each `exec` is the real command line in a process of its own; the processes are forked from one
that has imported everything, which saves each of them two seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

MARK: Final = "RUNNER_CAMPAIGN"
"""Variable that every process of a bed inherits, to be told by."""

FILE: Final = """
question = "Does it survive?"
boots = {boots}
{top}

[common]
model = "Qwen/Qwen3-1.7B"
image = "{image}"
context_tokens = 2048
max_running = 8
memory = {{ kv_tokens = 8192 }}
{common}

[engines.vllm]
simulate = {{ gpu = "laptop-8gb", startup_s = 0.05, speed = 2{simulate} }}
{section}

[[loads]]
workload = "random"
input_tokens = 16
output_tokens = {output_tokens}
concurrency = [1, 2]
requests = {requests}

[timeouts]
ready_s = {ready_s}
request_s = {request_s}
stop_s = 5
{timeouts}
"""

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["runner.cli", "runner.run", "runner.report", "docker", "pandas"])

_CHANGES: Final = {
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "shutil.rmtree",
    "open",
}
"""Audit events by which a step of the store is known."""


@dataclass(kw_only=True)
class Bed:
    """One experiment and its results.

    Attributes:
        folder: an empty folder of this bed alone.
        image: an image that holds the simulated engine.
        keys: what stands in the file besides.
    """

    folder: Path
    image: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: f"survives-{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.text(), encoding="utf-8")

    @property
    def path(self) -> Path:
        """Return the experiment file."""
        return self.folder / f"{self.name}.toml"

    @property
    def results(self) -> Path:
        """Return the folder of all results."""
        return self.folder / "results"

    @property
    def stored(self) -> Path:
        """Return the results of its experiment."""
        return self.results / self.name

    def text(self) -> str:
        """Return the experiment file's text."""
        usual = {
            "boots": 1,
            "top": "",
            "common": "",
            "simulate": "",
            "section": "",
            "timeouts": "",
            "requests": 4,
            "output_tokens": 4,
            "ready_s": 30,
            "request_s": 20,
        }
        return FILE.format(image=self.image, **{**usual, **self.keys})

    def exec(
        self,
        *options: str,
        step: int | None = None,
        prepare: Callable[[], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Exec:
        """Start `runner exec`.

        Args:
            options: further options of the command.
            step: die by SIGKILL at that step of the store, from 1.
            prepare: called in the process before the command; a function of a module.
            environment: further variables.
        """
        said = self.folder / f"said-{time.monotonic_ns()}.txt"
        arguments = ["exec", str(self.path), "--results", str(self.results), *options]
        variables = {MARK: self.name, **(environment or {})}
        watched = str(self.stored) if step is not None else None
        process = _forks.Process(
            target=_execute, args=(arguments, variables, str(said), watched, step or 0, prepare)
        )
        process.start()
        return Exec(process=process, said=said)

    def containers(self) -> list[str]:
        """Return the containers that are there for its experiment."""
        label = f"label=runner.experiment={self.name}"
        return _docker("ps", "-aq", "--filter", label).split()

    def processes(self) -> list[str]:
        """Return the processes of this machine that it left, as `pid: command`."""
        return list(_marked(f"{MARK}={self.name}".encode()))

    def drafts(self) -> list[Path]:
        """Return the half-written files and the desks that are there."""
        open_desks = [path for path in self.stored.glob(".open/*/*") if path.is_dir()]
        return [*self.stored.rglob("*.draft"), *open_desks]


@dataclass(frozen=True, kw_only=True)
class Exec:
    """One `exec` under way."""

    process: Any
    said: Path

    def wait(self, seconds: float = 120) -> int:
        """Return its exit code, negative for a signal.

        Raises:
            TimeoutError: it did not end in time; it is killed.
        """
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.kill()
            raise TimeoutError(f"exec did not end within {seconds:g} s: {self.text[-2000:]}")
        return int(self.process.exitcode)

    def kill(self) -> None:
        """Kill it by SIGKILL, if it still runs."""
        self.process.kill()
        self.process.join()

    def send(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.process.pid, number)

    def until(self, words: str, seconds: float = 60) -> None:
        """Wait until it said something.

        Raises:
            TimeoutError: it never did.
        """
        deadline_s = time.monotonic() + seconds
        while words not in self.text:
            if time.monotonic() > deadline_s or self.process.exitcode is not None:
                raise TimeoutError(f"exec never said {words!r}: {self.text[-2000:]}")
            time.sleep(0.02)

    @property
    def text(self) -> str:
        """Return what it printed so far."""
        return self.said.read_text(errors="replace") if self.said.exists() else ""


def _execute(
    arguments: list[str],
    variables: dict[str, str],
    said: str,
    watched: str | None,
    step: int,
    prepare: Callable[[], None] | None,
) -> None:
    """Be `runner` with these arguments; what it prints goes into a file."""
    os.environ.update(variables)
    with open(said, "wb") as file:  # noqa: PTH123 - a descriptor for both streams
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    import runner.world
    from runner.cli import main

    vars(runner.world)["floor"] = lambda **client: None  # it takes two seconds, and is no fault
    if prepare is not None:
        prepare()
    if watched is not None:
        sys.addaudithook(_Dying(watched, step))
    main(arguments, prog_name="runner")


class _Dying:
    """Ends this process by SIGKILL at a step of the store: a change of a file below a folder."""

    def __init__(self, folder: str, step: int) -> None:
        self._folder = folder
        self._left = step

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _CHANGES or not str(arguments[0]).startswith(self._folder):
            return
        if event == "open" and not _is_step(arguments):
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _is_step(arguments: tuple[Any, ...]) -> bool:
    """Whether an open is for writing, or for flushing to disk what was written."""
    flags = arguments[2] if len(arguments) > 2 and isinstance(arguments[2], int) else 0
    is_draft = str(arguments[0]).endswith(".draft")
    return is_draft or bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _marked(mark: bytes) -> Iterator[str]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if command:  # a zombie has none
                    yield f"{folder.name}: {command.strip()}"
        except OSError:
            continue


def _docker(*words: str) -> str:
    return subprocess.run(
        ["docker", *words], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()
