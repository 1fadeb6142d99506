"""Local servers that dead runners left are ended; living ones and strangers are not touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from runner.launchers import Launch
from runner.launchers.process import ProcessLauncher
from runner.launchers.trail import folder
from runner.owners import clean, owner
from runner.owners.clean import Finding, sweep_local, told

RUNNER = """
import pathlib, sys, time
from runner.owners import owner
from runner.launchers import Launch
from runner.launchers.process import ProcessLauncher
labels = owner.labels(owner.here(), experiment="e", run="r", cell="c", boot="3")
folder = pathlib.Path(sys.argv[1])
launch = Launch(name="server", argv=(sys.executable, "-c", sys.argv[2]), labels=labels)
server = ProcessLauncher(folder / "trails").start(launch, folder / "log")
print(server.pid, server._kept._process.pid, flush=True)
time.sleep(600)
"""
SERVER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
more = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", more])
print(child.pid, flush=True)
time.sleep(600)
"""


def wait_until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Neighbour:
    """Another runner on this machine, with one local server that has a child of its own."""

    def __init__(self, folder: Path) -> None:
        self.trails = folder / "trails"
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(folder), SERVER], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        with self.process.stdout as said:
            self.server, self.keeper = map(int, said.readline().split())
        wait_until(lambda: (folder / "log").read_text().endswith("\n"))
        self.child = int((folder / "log").read_text())

    def kill_all_but_the_child(self) -> None:
        """Kill the runner and then the keeper, so that nobody ends the server's child."""
        os.kill(self.keeper, signal.SIGSTOP)
        self.process.kill()
        self.process.wait()
        os.kill(self.keeper, signal.SIGKILL)
        wait_until(lambda: not alive(self.server))


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Neighbour]:
    found = Neighbour(tmp_path)
    yield found
    for pid in (found.child, found.server, found.process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    found.process.wait()
    wait_until(lambda: not alive(found.keeper))


def test_the_server_of_a_living_runner_is_left(neighbour: Neighbour) -> None:
    (found,) = sweep_local(neighbour.trails)
    assert (found.verdict, found.removed) == ("alive", False)
    assert found.purpose == "experiment e, run r, boot 3"
    assert alive(neighbour.server)
    assert alive(neighbour.child)


def test_what_outlives_its_dead_runner_and_keeper_is_ended(neighbour: Neighbour) -> None:
    neighbour.kill_all_but_the_child()
    assert alive(neighbour.child)
    (found,) = sweep_local(neighbour.trails)
    assert (found.verdict, found.removed) == ("dead", True)
    assert not alive(neighbour.child)
    assert list(sweep_local(neighbour.trails)) == []


def test_looking_only_ends_nothing(neighbour: Neighbour) -> None:
    neighbour.kill_all_but_the_child()
    (found,) = sweep_local(neighbour.trails, remove=False)
    assert (found.verdict, found.removed) == ("dead", False)
    assert alive(neighbour.child)


def test_a_group_number_that_may_be_reused_is_left_with_the_command(
    neighbour: Neighbour, tmp_path: Path
) -> None:
    neighbour.kill_all_but_the_child()
    (path,) = neighbour.trails.glob("*.json")
    noted = json.loads(path.read_text())
    path.write_text(json.dumps({**noted, "token": "another", "group_ticks": 1}))
    (found,) = sweep_local(neighbour.trails)
    assert (found.verdict, found.removed) == ("unknown", False)
    assert found.by_hand == f"kill -9 {neighbour.child}"
    assert alive(neighbour.child)


def test_a_server_that_was_removed_leaves_no_note(tmp_path: Path) -> None:
    trails = tmp_path / "trails"
    launch = Launch(name="x", argv=(sys.executable, "-c", "import time; time.sleep(600)"))
    server = ProcessLauncher(trails).start(launch, tmp_path / "log")
    (found,) = sweep_local(trails)
    assert found.verdict == "unknown"
    server.remove()
    assert list(trails.iterdir()) == []


def test_a_server_whose_keeper_was_killed_is_still_ended_by_its_runner(tmp_path: Path) -> None:
    launch = Launch(name="x", argv=(sys.executable, "-c", SERVER))
    server = ProcessLauncher(tmp_path / "trails").start(launch, tmp_path / "log")
    wait_until(lambda: (tmp_path / "log").read_text().endswith("\n"))
    child = int((tmp_path / "log").read_text())
    os.kill(server._kept._process.pid, signal.SIGKILL)
    wait_until(lambda: server.exited() is not None)
    assert alive(child)
    server.stop(0)
    server.remove()
    assert not alive(child)


def test_files_that_are_no_notes_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text('{"other": 1}')
    (tmp_path / "c.json").write_bytes(b"\xff\xfe")
    (tmp_path / "d.txt").write_text("{}")
    assert list(sweep_local(tmp_path)) == []
    assert list(sweep_local(tmp_path / "nothing")) == []


FOUND = Finding(
    kind="container", name="n", purpose="p", verdict="unknown", by_hand="docker rm -f n"
)


def test_a_finding_is_told_with_what_to_type_where_nobody_can_judge() -> None:
    assert told(FOUND) == (
        "left container n (p): cannot tell whether its runner lives; `docker rm -f n`"
    )


def test_the_command_without_docker_still_ends_local_servers_and_says_what_is_missing(
    neighbour: Neighbour, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    neighbour.kill_all_but_the_child()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    monkeypatch.setattr("runner.launchers.trail.folder", lambda: neighbour.trails)
    result = CliRunner().invoke(clean.command, [])
    assert "removed process server" in result.output
    assert not alive(neighbour.child)
    assert "Error: Docker does not answer" in result.output
    assert result.exit_code == 3


def test_the_notes_of_each_boot_and_namespace_of_the_machine_lie_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    here = f"{owner.machine_boot()}-{owner.pid_namespace()}"
    assert folder() == Path("/state/runner/servers") / here


def test_a_note_of_a_server_that_is_gone_is_cleared_without_a_word(neighbour: Neighbour) -> None:
    neighbour.process.kill()
    wait_until(lambda: not alive(neighbour.keeper))
    assert len(list(neighbour.trails.iterdir())) == 1
    assert list(sweep_local(neighbour.trails)) == []
    assert list(neighbour.trails.iterdir()) == []
