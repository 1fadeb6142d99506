"""The queue and the KV cache under load: read beside it, stored, and a doubt where KV ran out."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

import engines
from engines import Sample
from runner import doubts, tables
from runner.boots.pressure import reading, watched
from runner.cli import main
from runner.stored.frames import results

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_totals_are_told_as_growth_and_what_a_page_does_not_tell_is_unknown() -> None:
    first = {"preemptions": 3.0, "draft_tokens": 100.0, "accepted_tokens": 50.0}
    now = {"preemptions": 5.0, "draft_tokens": 140.0, "accepted_tokens": 80.0, "waiting": 7.0}
    row = reading(now, first, NOW)
    assert (row["preemptions"], row["waiting"], row["accepted_ratio"]) == (2.0, 7.0, 0.75)
    assert (row["running"], row["kv_used_ratio"], row["output_tokens"]) == (None, None, None)


def test_a_slow_page_is_read_less_often_and_a_silent_one_leaves_no_rows() -> None:
    def slow() -> dict[str, float]:
        time.sleep(0.05)
        return {"running": 1.0}

    with watched(slow, period_s=0.01) as often:
        time.sleep(0.3)
    with watched(dict, period_s=0.01) as silent:
        time.sleep(0.05)
    assert len(often) == 1
    assert silent == []


@pytest.mark.parametrize(
    ("engine", "samples", "found"),
    [
        (
            "vllm",
            {
                "vllm:spec_decode_num_draft_tokens_total": 8.0,
                "vllm:spec_decode_num_accepted_tokens_total": 6.0,
            },
            {"draft_tokens": 8.0, "accepted_tokens": 6.0},
        ),
        ("sglang", {"sglang:spec_accept_rate": 0.75}, {"accepted_ratio": 0.75}),
    ],
)
def test_speculation_is_read_where_a_page_has_it(
    engine: str, samples: dict[str, float], found: dict[str, float]
) -> None:
    page = [Sample(name=name, labels={}, value=value) for name, value in samples.items()]
    assert engines.get(engine).counters(page) == found


def test_requests_that_were_put_back_are_a_doubt() -> None:
    [one] = doubts.of_load({"load": "random@c64", "preemptions": 3.0})
    assert (one.name, one.severity) == ("preempted", "suspect")
    assert one.sentence.startswith("3 requests were put back for want of KV memory")
    assert doubts.of_load({"load": "random@c64", "preemptions": 0.0}) == []
    assert doubts.of_load({"load": "random@c64", "preemptions": None}) == []


FULL = """
question = "What does a full KV cache show?"
boots = 1
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 1024
max_running = 16
memory = { kv_tokens = 2048 }
[engines.vllm]
simulate = { startup_s = 0.1, speed = 2 }
[[loads]]
workload = "random"
input_tokens = 100
output_tokens = 300
concurrency = 16
requests = 32
"""


def test_a_full_kv_cache_is_seen_while_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.world.floor", lambda **client: None)
    path = tmp_path / "full.toml"
    path.write_text(FULL)
    done = CliRunner().invoke(main, ["exec", str(path), "--results", str(tmp_path / "results")])
    found = results(tmp_path / "results")
    readings = found.table("metrics")
    assert len(readings) >= 1
    assert readings.kv_used_ratio.max() > 0.5
    assert set(readings.load) == {"random@c16"}
    assert found.loads.preemptions.iloc[0] > 0
    assert "preempted" in done.output
    shown = tables.get("pressure").build(found)
    assert shown is not None
    assert shown.frame["KV used, most %"].iloc[0][0] > 50
