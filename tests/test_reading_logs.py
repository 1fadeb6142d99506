"""Logs with known facts: each must be read as it is, and nothing more made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.scrape import as_object, scrape_file

LOGS = sorted((Path(__file__).parent / "logs").glob("*.log"))
UNTOLD = {"052": "only the model hub's words, which both engines print"}
"""Logs that do not show which engine wrote them."""


def known(log: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(log.with_suffix(".json").read_text())
    return facts


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_log_states_every_known_fact_and_no_absent_one(log: Path) -> None:
    expected = known(log)["expected"]
    found = as_object(scrape_file(log))["facts"]
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_log_ends_as_known_with_its_cause_and_evidence(log: Path) -> None:
    facts, found = known(log), as_object(scrape_file(log))
    assert found["outcome"] == facts["outcome"]
    assert found["cause"] == facts.get("cause")
    assert bool(found["evidence"]) == (facts["outcome"] == "failed")
    assert (found["phase"] is not None) == (facts["outcome"] == "failed")


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_the_engine_of_a_log_is_recognised(log: Path) -> None:
    expected = None if log.stem in UNTOLD else known(log)["engine"]
    assert as_object(scrape_file(log))["engine"] == expected


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_what_follows_from_a_log_does_not_contradict_it(log: Path) -> None:
    derived = known(log).get("derived", {})
    found = as_object(scrape_file(log))["facts"]
    assert {name: found[name] for name in derived if name in found} == {
        name: value for name, value in derived.items() if name in found
    }


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_told_or_recognised_an_engine_states_the_same(log: Path) -> None:
    told = {"vllm-ascend": "vllm"}.get(known(log)["engine"], known(log)["engine"])
    found, again = as_object(scrape_file(log)), as_object(scrape_file(log, told))
    assert again["facts"] == found["facts"]
    assert (again["outcome"], again["cause"]) == (found["outcome"], found["cause"])
