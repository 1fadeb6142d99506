"""One writer per results folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.errors import HostError
from runner.stored.lock import locked

HOLD = """
import pathlib, sys
from runner.stored.lock import locked
with locked(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_and_told_who_holds_the_results(tmp_path: Path) -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as holder,
    ):
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(HostError, match=f"process {holder.pid} "), locked(tmp_path):
            pass
        os.kill(holder.pid, signal.SIGKILL)
    with locked(tmp_path):
        pass
