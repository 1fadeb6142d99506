"""Local commands as servers: started, followed, and ended with all their descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.launchers import Exit, Launch, LaunchError
from runner.launchers.process import ProcessLauncher, ProcessServer, free_port


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


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "server.log"


Start = Callable[..., ProcessServer]


@pytest.fixture
def start(log: Path) -> Iterator[Start]:
    servers = []

    def _start(code: str, **more: object) -> ProcessServer:
        launch = Launch(name="x", argv=(sys.executable, "-c", code), port=free_port(), **more)  # type: ignore[arg-type]
        servers.append(ProcessLauncher(log.parent / "trails").start(launch, log))
        return servers[-1]

    yield _start
    for server in servers:
        server.remove()


def pids(log: Path, count: int) -> list[int]:
    """Return the pids that a server printed, one a line."""
    wait_until(lambda: log.read_bytes().count(b"\n") >= count)
    return [int(line) for line in log.read_text().split()[:count]]


def test_a_command_that_ends_by_itself_tells_its_code_and_its_whole_output(
    start: Start, log: Path
) -> None:
    server = start("import sys; print('one'); print('two', file=sys.stderr); sys.exit(3)")
    wait_until(lambda: server.exited() is not None)
    ended = server.exited()
    assert ended is not None
    assert ended.code == 3
    server.remove()
    assert sorted(log.read_text().split()) == ["one", "two"]
    assert server.seconds_of_line(1) is not None
    assert server.seconds_of_line(3) is None


def test_a_living_command_has_not_exited_and_stops_on_sigterm(start: Start) -> None:
    server = start("import time; time.sleep(600)")
    assert server.exited() is None
    assert server.pid is not None
    assert server.stop(20) == Exit(code=-signal.SIGTERM)
    assert not alive(server.pid)


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(start: Start, log: Path) -> None:
    server = start(
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    pids(log, 1)
    assert server.stop(0.2) == Exit(code=-signal.SIGKILL, forced=True)


ORPHAN = """
import os, signal, subprocess, sys, time
child = "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);" \\
        "print(os.getpid(), flush=True); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
"""


def test_a_descendant_that_left_the_group_and_lost_its_parent_is_ended_too(
    start: Start, log: Path
) -> None:
    server = start(ORPHAN)
    (orphan,) = pids(log, 1)
    wait_until(lambda: server.exited() is not None)
    assert alive(orphan)
    server.stop(0.2)
    assert not alive(orphan)


def test_sigkill_from_outside_is_the_code_and_its_children_end_with_it(
    start: Start, log: Path
) -> None:
    server = start(ORPHAN + "time.sleep(600)")
    (child,) = pids(log, 1)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: server.exited() is not None)
    assert server.stop(0).code == -signal.SIGKILL
    assert not alive(child)


def test_stop_and_remove_are_safe_to_call_twice_and_keep_the_first_answer(start: Start) -> None:
    server = start("raise SystemExit(7)")
    wait_until(lambda: server.exited() is not None)
    assert [server.stop(1).code, server.stop(1).code] == [7, 7]
    server.remove()
    server.remove()
    ended = server.exited()
    assert ended is not None
    assert ended.code == 7


def test_a_missing_program_is_a_launch_error_that_names_it(log: Path) -> None:
    launch = Launch(name="x", argv=("no-such-program-here", "--flag"))
    with pytest.raises(LaunchError, match="no-such-program-here") as caught:
        ProcessLauncher(log.parent / "trails").start(launch, log)
    assert (caught.value.phase, caught.value.cause) == ("start", "launch_failed")


def test_the_server_ends_when_the_runner_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from runner.launchers import Launch\n"
        "from runner.launchers.process import ProcessLauncher\n"
        "sleep = (sys.executable, '-c', 'import time; time.sleep(600)')\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "s = ProcessLauncher(folder).start(Launch(name='x', argv=sleep), folder / 'log')\n"
        "print(s.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert runner.stdout is not None
    with runner, runner.stdout:
        server = int(runner.stdout.readline())
        assert alive(server)
        runner.kill()
    wait_until(lambda: not alive(server))


def test_only_named_secrets_are_handed_over_and_their_values_stay_out_of_the_log(
    start: Start, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary_value")
    monkeypatch.setenv("OTHER_KEY", "other_canary")
    server = start(
        "import os; print(len(os.environ['HF_TOKEN']), 'OTHER_KEY' in os.environ,"
        "os.environ['PLAIN'], os.environ['HF_TOKEN'])",
        secrets=("HF_TOKEN",),
        env={"PLAIN": "yes"},
    )
    wait_until(lambda: server.exited() is not None)
    server.remove()
    assert log.read_text() == "15 False yes [HF_TOKEN]\n"


def test_a_secret_that_is_not_set_is_a_launch_error_that_names_it(start: Start) -> None:
    with pytest.raises(LaunchError, match=r"NOT_SET_ANYWHERE.*export"):
        start("pass", secrets=("NOT_SET_ANYWHERE",))


def test_the_command_runs_on_the_given_cores(start: Start, log: Path) -> None:
    core = min(os.sched_getaffinity(0))
    server = start("import os; print(os.sched_getaffinity(0))", cpus=str(core))
    wait_until(lambda: server.exited() is not None)
    server.remove()
    assert log.read_text() == f"{{{core}}}\n"


def test_cores_that_are_no_list_are_a_launch_error(start: Start) -> None:
    with pytest.raises(LaunchError):
        start("pass", cpus="all")


def test_a_memory_limit_is_refused_rather_than_ignored(start: Start) -> None:
    with pytest.raises(LaunchError, match="memory limit"):
        start("pass", memory_bytes=1 << 30)


def test_arguments_pass_no_shell(log: Path) -> None:
    argv = (sys.executable, "-c", "import sys; print(sys.argv[1:])", "$HOME; `id`", "a  b", "*")
    server = ProcessLauncher(log.parent / "trails").start(Launch(name="x", argv=argv), log)
    wait_until(lambda: server.exited() is not None)
    server.remove()
    assert log.read_text() == "['$HOME; `id`', 'a  b', '*']\n"
