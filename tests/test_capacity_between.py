"""Capacity held against an earlier run, or an earlier night, as every other figure is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runner.cli import main
from runner.experiment.night import REFERENCE, NightKeys
from runner.nights.verdicts import compared, figure_rows, verdict_rows
from runner.sides import compare
from runner.sides.between import Between, Judged
from runner.stored.frames import Results, results
from tests.stored import Stored

FILE = """
question = "How much does it bear?"
boots = 5
[common]
model = "Qwen/Qwen3-1.7B"
[engines.vllm]
simulate = {}
[[loads]]
workload = "random"
input_tokens = 256
output_tokens = 16
requests = 300
[loads.search]
rate_per_s = { low = 1, high = 64 }
slo = { ttft_p99_s = 2 }
within_ratio = 0.05
"""
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995)
WIDTH = 1.04


def run(
    folder: Path,
    levels: Sequence[float],
    *,
    content: str,
    why: str = "found",
    width: float = WIDTH,
    **keys: Any,
) -> Results:
    """Store a run: a search on each boot, of one cell and of the pinned one."""
    stored = Stored(folder, name="bears", file=FILE, content_id=content, **keys)
    cell = stored.cell("vllm")
    pinned = stored.cell("vllm pinned", name=REFERENCE)
    for boot, level in enumerate(levels):
        for where, met in ((cell, level), (pinned, 20.0 * NOISE[boot])):
            found = {"why": why, "level": met, "missed_level": met * width, "requests_per_s": met}
            row = {"load": "random@search", "repeat": 0, "level_kind": "rate_per_s", **found}
            stored.boot(where, boot, capacity=[{**row, "slo": "TTFT p99 <= 2 s", "probes": 9}])
    return results(folder / "bears", runs=[stored.run.run_id])


def around(level: float) -> list[float]:
    return [level * noise for noise in reversed(NOISE)]


def judged(folder: Path, then: float, now: float, metric: str, **keys: Any) -> Judged:
    earlier = run(folder, around(then), content="a", **keys)
    later = run(folder, around(now), content="b", **keys)
    found: Between = compare.compared(earlier, later, metric=metric)
    [one] = found.judged
    return one


@pytest.mark.parametrize("metric", ["output_tokens_per_s", "ttft_p50_s", "ttft_p99_s"])
def test_a_smaller_capacity_is_worse_whatever_the_other_loads_are_judged_by(
    tmp_path: Path, metric: str
) -> None:
    one = judged(tmp_path, 20.0, 15.0, metric)
    assert (one.now.load, one.verdict.word) == ("random@search", "worse")
    assert one.verdict.n == 5
    assert one.now.figures == pytest.approx(around(15.0))


def test_a_larger_capacity_is_better(tmp_path: Path) -> None:
    assert judged(tmp_path, 15.0, 20.0, "ttft_p50_s").verdict.word == "better"


@pytest.mark.parametrize("now", [20.0, 21.2])
def test_what_the_brackets_of_the_searches_leave_open_is_not_called(
    tmp_path: Path, now: float
) -> None:
    one = judged(tmp_path, 20.0, now, "output_tokens_per_s")
    assert one.verdict.word == "not enough data"
    assert "brackets of the searches leave 8.16 % open" in one.verdict.reason


def test_narrow_brackets_let_equal_capacities_be_equal(tmp_path: Path) -> None:
    one = judged(tmp_path, 20.0, 20.0, "output_tokens_per_s", width=1.001)
    assert one.verdict.word == "equal"


def test_searches_without_an_answer_give_no_figure(tmp_path: Path) -> None:
    one = judged(tmp_path, 20.0, 15.0, "output_tokens_per_s", why="above_range")
    assert one.verdict.word == "not enough data"
    assert one.now.figures == (None,) * 5


def test_the_command_says_what_the_figure_of_a_search_is(tmp_path: Path) -> None:
    runs = [run(tmp_path, around(rate), content=name).runs for rate, name in ((20, "a"), (15, "b"))]
    names = [f"{tmp_path}/bears@{one[0]}" for one in runs if one]
    done = CliRunner().invoke(main, ["compare", *names], catch_exceptions=False)
    assert done.exit_code == 1
    assert "Of a search: its capacity, more is better." in done.output
    assert "random@search" in done.output


def test_a_night_judges_capacity_beside_its_pinned_cells(tmp_path: Path) -> None:
    run(tmp_path, around(20.0), content="a", night="n1")
    tonight = run(tmp_path, around(15.0), content="a", night="n2")
    keys = NightKeys(experiments=("bears.toml",), metric="ttft_p50_s")
    found = compared([tonight], keys, tmp_path)
    assert len(found.worse) == 1
    assert "bears: vllm random@search" in found.worse[0]
    row = verdict_rows(found).iloc[0]
    assert row["held against"] == "night n1"
    figures = figure_rows(found)
    assert list(figures["believe it?"]) == ["yes", "yes"]


def test_a_nights_search_without_an_answer_is_not_to_be_believed(tmp_path: Path) -> None:
    tonight = run(tmp_path, around(15.0), content="a", night="n1", why="unknown")
    keys = NightKeys(experiments=("bears.toml",))
    figures = figure_rows(compared([tonight], keys, tmp_path))
    assert list(figures["believe it?"]) == ["no: no boot gave this figure"] * 2
