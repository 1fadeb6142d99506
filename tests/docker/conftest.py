"""Images for the tests that need Docker, made once and kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

BASE = "runner-test-base:bookworm"


@pytest.fixture(scope="session")
def base_image() -> str:
    """Return a small image with Python 3.11."""
    subprocess.run([Path(__file__).parent / "base-image", BASE], check=True, timeout=1200)
    return BASE
