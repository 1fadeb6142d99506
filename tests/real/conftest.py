"""Real vLLM and SGLang on a CPU: each booted once and shared by the tests that read or load it.

`build-images` makes what they need. Where that is missing the tests skip visibly; with
RUNNER_REAL=1, which says that it was made, they fail.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.real.booting import IMAGES, MODEL, Booted, booting


@functools.cache
def missing() -> str | None:
    """Return what the tests lack, None where everything is there."""
    if not (MODEL / "config.json").is_file():
        return str(MODEL)
    for image in IMAGES.values():
        asked = ["docker", "image", "inspect", image]
        if subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode != 0:
            return image
    return None


@pytest.hookimpl(trylast=True)  # whether Docker answers is asked before
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("real") is None or missing() is None:
        return
    reason = f"{missing()} is missing; tests/real/build-images makes it"
    if os.environ.get("RUNNER_REAL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session", params=IMAGES)
def booted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Booted]:
    """One engine, ready; pytest runs all tests of the first before it asks for the second."""
    with booting(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found
