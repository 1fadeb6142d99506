"""A cell that needs more memory than one that died of it: known, shown, skipped and stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from runner.cli import main
from runner.experiment import Experiment
from runner.plan.cells import Cell, cells_of
from runner.plan.dominated import BESIDE_KV, CAUSES, FOR_KV, dominating, needs_more
from runner.stored.frames import results


def cells(**axes: list[Any]) -> list[Cell]:
    written = {
        "question": "?",
        "boots": 1,
        "common": {"model": "m/m", "memory": {"fraction": 0.5}},
        "engines": {"vllm": {"image": "i:1"}},
        "matrix": {"engine": ["vllm"], **axes},
        "loads": [{"workload": "random", "input_tokens": 1, "output_tokens": 1, "concurrency": 1}],
    }
    written["loads"][0]["requests"] = 1  # type: ignore[index]
    return cells_of(Experiment.model_validate(written))


@pytest.mark.parametrize("cause", sorted(CAUSES))
@pytest.mark.parametrize("setting", ["chunk_tokens", "max_running", "context_tokens"])
def test_more_of_a_growing_setting_needs_more(setting: str, cause: str) -> None:
    small, large = cells(**{setting: [64, 128]})
    assert needs_more(large, small, cause)
    assert not needs_more(small, large, cause)
    assert not needs_more(small, small, cause)


def test_a_fraction_is_read_by_what_had_ended() -> None:
    low, high = cells(memory=[{"fraction": 0.5}, {"fraction": 0.9}])
    assert all(needs_more(high, low, cause) for cause in BESIDE_KV)
    assert all(needs_more(low, high, cause) for cause in FOR_KV)


def test_what_cannot_be_compared_is_not() -> None:
    first, second = cells(memory=[{"fraction": 0.5}, {"kv_tokens": 4096}])
    assert not needs_more(first, second, "oom_serving")
    plain, other = cells(weights=["as_stored", "fp8"])
    assert not needs_more(plain, other, "oom_serving")
    small, large = cells(max_running=[64, 128])
    assert not needs_more(large, small, "wrong_model")


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=3, max_size=3))
def test_needing_more_is_a_strict_order(pairs: list[tuple[int, int]]) -> None:
    grid = {
        (cell.keys.max_running, cell.keys.chunk_tokens): cell
        for cell in cells(max_running=[1, 2, 3], chunk_tokens=[1, 2, 3])
    }
    a, b, c = (grid[pair] for pair in pairs)
    assert not (needs_more(a, b, "oom_serving") and needs_more(b, a, "oom_serving"))
    if needs_more(a, b, "oom_serving") and needs_more(b, c, "oom_serving"):
        assert needs_more(a, c, "oom_serving")


def test_a_death_that_a_later_attempt_survived_skips_nothing() -> None:
    small, large = cells(max_running=[64, 128])
    known = {cell.cell_id: cell for cell in (small, large)}
    died = {"cell_id": small.cell_id, "boot": 0, "outcome": "failed", "cause": "oom_serving"}
    assert dominating(large, known, [died]) == died
    assert dominating(small, known, [died]) is None
    assert dominating(large, known, [died, {**died, "outcome": "done", "cause": None}]) is None


FILE = """
question = "What needs more than what died?"
boots = 2
skip_dominated = true
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
memory = { kv_tokens = 8192 }
[engines.vllm]
simulate = { gpu = "laptop-8gb", startup_s = 0.1, speed = 10, oom_under_load = 1 }
[matrix]
engine = ["vllm"]
max_running = [4, 8]
[[loads]]
workload = "random"
input_tokens = 16
output_tokens = 4
concurrency = 1
requests = 4
[timeouts]
stop_s = 2
"""


def test_exec_skips_it_as_a_row_with_the_cause_and_the_plan_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.world.floor", lambda **client: None)
    path = tmp_path / "memory.toml"
    path.write_text(FILE)

    planned = CliRunner().invoke(main, ["plan", str(path)])
    assert "vllm max_running=8: skipped once vllm max_running=4 died of memory" in planned.output

    done = CliRunner().invoke(main, ["exec", str(path), "--results", str(tmp_path / "results")])
    boots = results(tmp_path / "results" / "memory").boots
    skipped = boots[boots.outcome == "skipped"]
    assert len(boots) == 4, done.output
    assert 1 <= len(skipped) <= 2, done.output
    assert set(skipped.cause) == {"oom_serving"}
    assert skipped.message.str.contains("vllm max_running=4").all()
    assert set(boots[boots.outcome == "failed"].cause) == {"oom_serving"}
    again = CliRunner().invoke(main, ["exec", str(path), "--results", str(tmp_path / "results")])
    assert "4 of 4 boots stored, 0 started now" in again.output
