"""Images for the tests that need Docker, made once and kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

BASE = "runner-test-base:bookworm"
IMAGE = "runner-test:latest"


@pytest.fixture(scope="session")
def base_image() -> str:
    """Return a small image with Python 3.11."""
    subprocess.run([Path(__file__).parent / "base-image", BASE], check=True, timeout=1200)
    return BASE


@pytest.fixture(scope="session")
def runner_image(base_image: str) -> str:
    """Return the runner's own image, built from this checkout; unchanged layers are kept."""
    build = ["docker", "build", "-q", "-t", IMAGE, "--build-arg", f"BASE={base_image}", "."]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        build, cwd=root, capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return IMAGE
