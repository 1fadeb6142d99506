"""Keeps one local server: starts it, tells how it ended, ends all that descends from it.

Run as a script, `keeper.py CORES PROGRAM ...`, standard library only. An orphan falls to its
nearest "child subreaper" (prctl(2)), which the keeper is: so an engine process that outlives its
API server (https://github.com/vllm-project/vllm/issues/34643) stays below the keeper and is
found. The keeper also outlives a runner that was killed, just long enough to end the server.

It reads `stop SECONDS` on stdin, where the end of input means that the runner is gone. It prints
`started PID`, `failed REASON`, `ended CODE`, `forced`, `left PID ...` and `gone`. Its stderr
becomes the server's output.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.1
ABANDONED_GRACE_S = 5.0
KILL_S = 10.0


def main(argv: list[str]) -> int:
    """Keep the server `argv[1:]` on cores `argv[0]`; return 0 when nothing of it is left."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        if argv[0]:
            os.sched_setaffinity(0, cores(argv[0]))
        server = subprocess.Popen(
            argv[1:],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=_child,  # noqa: PLW1509 - there is one thread
        )
    except (OSError, ValueError) as error:
        _say(f"failed {error}")
        return 1
    _say(f"started {server.pid}")
    grace_s = _watch(server.pid)
    left = _end(server.pid, grace_s)
    _say(" ".join(["left", *map(str, left)]) if left else "gone")
    return bool(left)


def _child() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch(server: int) -> float:
    """Return the grace in seconds once the server is to be stopped."""
    runner = os.getppid()
    while True:
        _reap(server)
        if os.getppid() != runner:
            return ABANDONED_GRACE_S
        if select.select([0], [], [], POLL_S)[0]:
            words = os.read(0, 100).split()
            return float(words[1]) if words else ABANDONED_GRACE_S


def _end(server: int, grace_s: float) -> list[int]:
    """Ask the server's group to end, then kill all descendants; return those that live on."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server, signal.SIGTERM)
    if _gone(server, grace_s, kill=False):
        return []
    _say("forced")
    _gone(server, KILL_S, kill=True)
    return descendants(os.getpid())


def _gone(server: int, limit_s: float, *, kill: bool) -> bool:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        _reap(server)
        living = descendants(os.getpid())
        if not living:
            return True
        for pid in living if kill else ():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S / 4)
    return False


def _reap(server: int) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        if pid == server:
            _say(f"ended {os.waitstatus_to_exitcode(status)}")


def descendants(root: int) -> list[int]:
    """Return the processes below process `root`, by the parents that /proc tells."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        if fields := stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    found, open_ = [], [root]
    while open_:
        below = children.get(open_.pop(), [])
        found += below
        open_ += below
    return found


def pids() -> list[int]:
    """Return all processes that /proc shows."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def stat(pid: int) -> list[str]:
    """Return the fields of proc(5) `stat` from the third on: state, parent, group, ..."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []
    # the name before them, in parentheses, may hold anything
    return text.rpartition(")")[2].split()


def cores(text: str) -> set[int]:
    """Return the cores that `0-3,5` names.

    Raises:
        ValueError: it is not such a list.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _say(line: str) -> None:
    try:
        os.write(1, line.encode() + b"\n")
    except BrokenPipeError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
