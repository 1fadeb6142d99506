"""Tests that need Docker skip visibly where none answers; in CI that is a failure."""

from __future__ import annotations

import functools
import os
import subprocess

import pytest
from hypothesis import settings

from runner.nights import nightly
from tests.nights import Box

# a busy machine is slow, and no test judges time
settings.register_profile("runner", deadline=None)
settings.load_profile("runner")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") is None or docker_answers():
        return
    if os.environ.get("RUNNER_CI") == "1":
        pytest.fail("RUNNER_CI=1 but no Docker daemon answers `docker version`", pytrace=False)
    pytest.skip("no Docker daemon answers `docker version`")


@functools.cache
def docker_answers() -> bool:
    try:
        asked = subprocess.run(["docker", "version"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    """Return a stand-in for `execute`, which nights run by."""
    made = Box()
    monkeypatch.setattr(nightly, "execute", made.execute)
    return made
