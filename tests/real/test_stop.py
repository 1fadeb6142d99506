"""A planned stop of a real engine. It ends the server: no file of this folder may come after it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.real.booting import Booted

pytestmark = [pytest.mark.docker, pytest.mark.real]


def test_a_planned_stop_is_no_crash_in_the_log(booted: Booted) -> None:
    lines = booted.log.read_bytes().count(b"\n")
    how = booted.server.stop(30)
    assert not how.oom_killed
    assert how.code != 137, "it did not end on SIGTERM within 30 s"
    assert booted.log.read_bytes().count(b"\n") > lines
    reading = booted.logged()
    assert (reading.outcome, reading.cause) == ("ready", None), reading.evidence


def test_nothing_is_left_of_a_removed_engine(booted: Booted) -> None:
    booted.server.remove()
    asked = ["docker", "container", "inspect", booted.name]
    assert subprocess.run(asked, capture_output=True, check=False, timeout=60).returncode != 0
