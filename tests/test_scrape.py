"""`runner scrape`: files, compressed files, standard input; a table and JSON."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from runner.scrape import command

LOGS = Path(__file__).parent / "logs"


def scrape(*words: str | Path, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], input=stdin)


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_json_is_one_object_per_input_with_every_key() -> None:
    result = scrape(LOGS / "202.log", LOGS / "112.log", "--format", "json")
    first, second = objects(result)
    assert first["engine"] == "vllm"
    assert first["facts"]["kv_tokens"] == 4194304
    assert second["cause"] == "hicache_host_memory"
    assert {"engine", "version", "outcome", "cause", "evidence", "facts"} <= set(first)


def test_a_compressed_log_states_what_the_plain_one_does(tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress((LOGS / "113.log").read_bytes()))
    plain = objects(scrape(LOGS / "113.log", "--format", "json"))
    assert objects(scrape(packed, "--format", "json")) == plain


def test_a_log_kept_in_compressed_parts_is_read_whole(tmp_path: Path) -> None:
    log = (LOGS / "113.log").read_bytes()
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress(log[:500]) + gzip.compress(log[500:]))
    plain = objects(scrape(LOGS / "113.log", "--format", "json"))
    assert objects(scrape(packed, "--format", "json")) == plain


def test_a_damaged_compressed_log_still_says_something(tmp_path: Path) -> None:
    packed = tmp_path / "log.gz"
    packed.write_bytes(gzip.compress((LOGS / "201.log").read_bytes())[:-1500])
    (found,) = objects(scrape(packed, "--format", "json"))
    assert found["facts"]["version"] == "0.32.0"


def test_standard_input_is_a_dash() -> None:
    result = scrape("-", "--format", "json", stdin=(LOGS / "118.log").read_bytes())
    assert objects(result)[0]["facts"]["kv_tokens"] == 330323


def test_the_table_shows_facts_with_units_and_lines() -> None:
    shown = scrape(LOGS / "202.log").stdout
    assert "vllm 0.32.0, ready" in shown
    assert "4,194,304 tokens" in shown
    assert "1.00 GiB" in shown
    assert "line" in shown


def test_the_table_of_a_death_says_what_to_do() -> None:
    shown = scrape(LOGS / "112.log").stdout
    assert "cause: hicache_host_memory (phase ready, origin host)" in shown
    assert "34.13 GB are left" in shown


def test_an_engine_can_be_told() -> None:
    (found,) = objects(scrape(LOGS / "052.log", "--engine", "vllm", "--format", "json"))
    assert (found["engine"], found["cause"]) == ("vllm", "gated_model")


def test_an_empty_log_says_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    (found,) = objects(scrape(empty, "--format", "json"))
    assert (found["engine"], found["outcome"], found["facts"]) == (None, "partial", {})


@pytest.mark.parametrize("words", [(), ("--engine", "none", "x"), ("--format", "xml", "x")])
def test_a_wrong_command_is_refused(words: tuple[str, ...]) -> None:
    assert scrape(*words).exit_code == 2


def test_a_missing_file_is_named() -> None:
    result = scrape("no-such.log")
    assert result.exit_code == 2
    assert "no-such.log" in result.stderr
