"""`runner scrape` on a live container and on the file of its output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from runner.cli import main

if TYPE_CHECKING:
    from tests.real.booting import Booted

pytestmark = [pytest.mark.docker, pytest.mark.real]


def scraped(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["scrape", *words, "--format", "json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_live_container_and_its_file_give_the_same_facts(booted: Booted) -> None:
    live, stored = scraped("--container", booted.name), scraped(str(booted.log))
    assert stored["engine"] == booted.cell.engine.name
    assert stored["outcome"] == "ready"
    assert stored["facts"]
    assert {k: v for k, v in live.items() if k in stored} | stored == live | stored
    assert live["facts"].items() >= stored["facts"].items()
