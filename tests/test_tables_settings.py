"""The table of each setting's three lives: requested, resolved, observed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.report import report
from tests.stored import Stored

ASKED = {"chunk_tokens": 512, "memory": {"kv_tokens": 20480}, "weights": "as_stored"}
SENT = {"chunk_tokens": ["--chunked-prefill-size", "512"]}


def fact(name: str, value: object, source: str = "log") -> dict[str, Any]:
    return {"name": name, "value": str(value), "source": source}


def lives(folder: Path, *boots: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the table's rows by setting; of several rows of one setting the last."""
    stored = Stored(folder)
    cell = stored.cell("sglang", settings=ASKED, resolved=json.dumps(SENT))
    for boot, facts in enumerate(boots):
        stored.boot(cell, boot, facts=facts)
    shown = json.loads(report(stored.read(), names=["settings"], form="json"))
    return {row["setting"]: row for row in shown["rows"]}


def test_what_was_asked_sent_and_said_stands_in_one_row(tmp_path: Path) -> None:
    chunk = lives(
        tmp_path,
        [
            fact("chunk_tokens", 512),
            fact("chunk_tokens", 512, "server_info"),
            fact("largest_prefill_tokens", 384, "load"),
        ],
    )["chunk_tokens"]
    assert chunk["requested"] == "512"
    assert chunk["resolved"] == "--chunked-prefill-size 512"
    assert chunk["observed"] == "512 (log, server_info); largest_prefill_tokens 384 (load)"


def test_sources_that_agree_within_their_rounding_say_one_thing(tmp_path: Path) -> None:
    memory = lives(
        tmp_path,
        [
            fact("kv_tokens", 20480),
            fact("kv_bytes", 10737418, "server_info"),
            fact("kv_bytes", 10486272, "metrics"),
        ],
    )["memory"]
    assert memory["observed"] == "kv_tokens 20480 (log); kv_bytes 0.01 GiB (server_info, metrics)"


@pytest.mark.parametrize("value", ["as_stored", "fp8"])
def test_what_became_of_the_weights_is_observed(tmp_path: Path, value: str) -> None:
    assert lives(tmp_path, [fact("weights", value)])["weights"]["observed"] == f"{value} (log)"


def test_a_setting_that_nothing_shows_is_an_empty_cell_and_boots_that_differ_are_told(
    tmp_path: Path,
) -> None:
    rows = lives(tmp_path, [], [fact("server_seed", 7)])
    assert rows["weights"]["observed"] == ""
    assert (rows["server_seed"]["boots"], rows["server_seed"]["observed"]) == ("1", "7 (log)")
