"""A short fault campaign; the whole one is `python -m tests.docker.campaign --kills 200`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.docker


@pytest.mark.usefixtures("base_image")
@pytest.mark.parametrize(
    "asked",
    [
        ["--only", "at random", "--kills", "8", "--seed", "5"],
        ["--only", "steps of the store", "--stride", "61"],
        ["--only", "name is taken"],
        ["--only", "stranger's file"],
        ["--only", "SIGINT twice"],
        ["--only", "daemon restarted"],
    ],
    ids=lambda asked: asked[1],
)
def test_every_fault_ends_as_expected(runner_image: str, asked: list[str]) -> None:
    command = [sys.executable, "-m", "tests.docker.campaign", "--image", runner_image, *asked]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
