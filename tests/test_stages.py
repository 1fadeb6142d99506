"""Two stages in one file: the second gets the smallest KV capacity of the first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from runner import tables
from runner.errors import ExperimentError
from runner.experiment.night import read_night
from runner.experiment.read import read
from runner.nights.nightly import nightly
from runner.nights.share import Share
from runner.plan import Plan, expand, second_stage
from runner.plan.estimate import estimate
from runner.plan.stages import smallest_kv_tokens
from runner.plan.text import planned
from runner.progress import Happening
from runner.run import execute
from runner.sides.side import side_of
from runner.stored.frames import Results, results
from runner.stored.store import Store
from runner.summary import Summary
from runner.world import World

FILE = """
question = "Is it the KV cache?"
boots = 1

[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 1024
max_running = 8

[engines.vllm]
simulate = { gpu = "laptop-8gb", startup_s = 0.1, speed = 20 }
memory = { kv_tokens = 8192 }

[engines.sglang]
simulate = { gpu = "laptop-8gb", startup_s = 0.1, speed = 20 }
memory = { fraction = 0.8 }

[[stages]]
name = "as_configured"

[[stages]]
name = "matched"
kv_tokens = "smallest"

[[loads]]
workload = "random"
input_tokens = 16
output_tokens = 2
concurrency = 1
requests = 3
"""


def plan_of(folder: Path, text: str = FILE) -> Plan:
    path = folder / "staged.toml"
    path.write_text(text)
    return expand(read(path))


def gone_on(folder: Path, watch: Callable[[Happening], None] = lambda event: None) -> Summary:
    world = World(floor=lambda client: None)  # type: ignore[arg-type,return-value]
    return execute(plan_of(folder), world, folder / "results", watch=watch)


def killed_at(*, event: str, begins: str, times: int = 1) -> Callable[[Happening], None]:
    """Return a watcher that ends the run at the n-th happening of a kind."""
    seen = []

    def watch(happening: Happening) -> None:
        said = happening.subject + happening.detail
        if happening.event == event and said.startswith(begins):
            seen.append(said)
        if len(seen) == times:
            raise KeyboardInterrupt

    return watch


def read_back(folder: Path) -> Results:
    return results(folder / "results" / "staged")


def frozen(folder: Path) -> Any:
    [note] = Store(folder / "results", "staged").runs()
    return note.get("frozen_kv_tokens")


def test_a_run_that_is_killed_at_any_point_goes_on_with_the_capacity_it_froze(
    tmp_path: Path,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        gone_on(tmp_path, killed_at(event="ended", begins="", times=2))
    assert frozen(tmp_path) is None
    assert len(read_back(tmp_path).boots) == 2

    with pytest.raises(KeyboardInterrupt):
        gone_on(tmp_path, killed_at(event="note", begins="stage 2: 8192 KV tokens"))
    assert frozen(tmp_path) == 8192
    assert len(read_back(tmp_path).boots) == 2

    with pytest.raises(KeyboardInterrupt):
        gone_on(tmp_path, killed_at(event="ended", begins=""))
    assert len(read_back(tmp_path).boots) == 3

    last = gone_on(tmp_path)
    assert (last.started, last.stored, last.total, last.pending) == (1, 4, 4, "")
    assert frozen(tmp_path) == 8192
    found = read_back(tmp_path)
    assert found.boots.run.nunique() == 1
    assert list(found.boots.sort_values("order").order) == [0, 1, 2, 3]
    stages = dict(zip(found.cells.cell_id, found.cells.stage, strict=True))
    matched = found.boots[found.boots.cell_id.map(stages) == "matched"]
    assert list(matched.kv_tokens) == [8192, 8192]
    assert not any(len(doubts) for doubts in matched.doubts)

    again = gone_on(tmp_path)
    assert (again.started, again.stored) == (0, 4)

    shown = tables.get("kv_matched").build(found)
    assert shown is not None
    assert list(shown.frame.cell) == ["vllm", "sglang"]
    assert list(shown.frame["KV tokens matched"]) == [(8192,), (8192,)]
    assert "output tok/s matched" in shown.frame
    assert not any("output_tokens_per_s" in said for said in (*shown.frame, *shown.above))
    assert shown.frame["KV tokens as_configured"].iloc[1][0] > 8192


def test_the_plan_prints_what_stage_1_will_show_and_reckons_with_both(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    text = planned(plan, {})
    assert (
        "sglang stage=matched: model = Qwen/Qwen3-1.7B, memory = { kv_tokens = smallest of" in text
    )
    assert "16384" not in text
    assert plan.second is not None
    alone = estimate(plan.second).total_s
    assert estimate(plan).total_s == pytest.approx(2 * alone)


def test_stages_are_part_of_what_a_run_answers_and_the_capacity_is_not(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    single = FILE[: FILE.index("[[stages]]")] + FILE[FILE.index("[[loads]]") :]
    assert plan.content_id != plan_of(tmp_path, single).content_id
    ids = {cell.cell_id for cell in plan.cells}
    later = second_stage(plan, 8192)
    assert not ids & {cell.cell_id for cell in later.cells}
    assert [cell.keys.memory.kv_tokens for cell in later.cells if cell.keys.memory] == [8192] * 2
    assert [boot.order for boot in later.boots] == [2, 3]


def boot(cell_id: str, kv_tokens: int | None, outcome: str = "done", number: int = 0) -> Any:
    return {"cell_id": cell_id, "kv_tokens": kv_tokens, "outcome": outcome, "boot": number}


def test_the_smallest_boot_counts_and_failed_and_priming_ones_do_not() -> None:
    cells = {"a": "vllm", "b": "sglang"}
    boots = [boot("a", 900), boot("a", 700), boot("b", 800), boot("a", 5, "failed")]
    boots += [boot("b", 6, number=-1), boot("later", 7)]
    assert smallest_kv_tokens(boots, cells) == (700, "")


def test_without_a_boot_that_states_its_tokens_there_is_no_second_stage() -> None:
    boots = [boot("a", 900), boot("b", None), boot("b", 5, "failed")]
    tokens, why = smallest_kv_tokens(boots, {"a": "vllm", "b": "sglang"})
    assert (tokens, why) == (None, "no complete boot of sglang stated its KV tokens")


def test_a_first_stage_that_fails_leaves_the_second_pending_and_exit_1(tmp_path: Path) -> None:
    text = FILE.replace(
        "speed = 20 }\nmemory = { fraction", 'crash_at = "weights" }\nmemory = { fraction'
    )
    assert text != FILE
    world = World(floor=lambda client: None)  # type: ignore[arg-type,return-value]
    done = execute(plan_of(tmp_path, text), world, tmp_path / "results")
    assert done.pending == "no complete boot of sglang stage=as_configured stated its KV tokens"
    assert (done.stored, done.total, done.exit_code) == (2, 4, 1)
    assert "stage 2 could not begin" in done.text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('kv_tokens = "smallest"', "", "stages: stages are two: one as configured, then one with"),
        ('kv_tokens = "smallest"', 'kv_tokens = "largest"', 'must be "smallest"'),
        (
            'name = "matched"',
            'name = "as_configured"',
            "stages[1].name: a stage needs a name",
        ),
        (
            "[[loads]]",
            "[matrix]\nmemory = [{ kv_tokens = 9000 }, { kv_tokens = 9999 }]\n[[loads]]",
            "matrix.memory: stage 2 gives every cell its memory",
        ),
        (
            'simulate = { gpu = "laptop-8gb", startup_s = 0.1, speed = 20 }\nmemory = { fraction',
            'launcher = "attach"\nurl = "http://h:1"\nmemory = { fraction',
            "engines.sglang: a server that is attached cannot be given its KV tokens",
        ),
    ],
)
def test_stages_that_cannot_be_are_complaints(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in FILE
    with pytest.raises(ExperimentError) as refused:
        plan_of(tmp_path, FILE.replace(old, new, 1))
    assert said in str(refused.value)


NIGHT = """
experiments = ["staged.toml"]
[reference]
engine = "vllm"
version = "0.31.0"
simulate = { gpu = "laptop-8gb", startup_s = 0.1, speed = 20 }
memory = { kv_tokens = 4096 }
"""


def a_night(
    folder: Path, watch: Callable[[Happening], None] = lambda event: None, **options: Any
) -> list[Share]:
    plan_of(folder, FILE.replace("boots = 1", "boots = 2"))
    (folder / "night.toml").write_text(NIGHT)
    world = World(floor=lambda client: None)  # type: ignore[arg-type,return-value]
    night = read_night(folder / "night.toml")
    return nightly(night, world, folder / "results", name="n1", watch=watch, **options)


def test_a_night_runs_all_blocks_of_stage_1_then_those_of_stage_2_each_with_the_pinned_cell(
    tmp_path: Path,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        a_night(tmp_path, killed_at(event="note", begins="stage 2: 8192 KV tokens"))
    [share] = a_night(tmp_path)
    assert share.summary is not None
    assert (share.summary.stored, share.summary.total, share.summary.pending) == (12, 12, "")
    assert share.summary.unexpected == 0
    assert frozen(tmp_path) == 8192  # the pinned cell has less, and says nothing of it
    found = read_back(tmp_path)
    cells = found.cells.set_index("cell_id")
    boots = found.boots.assign(stage=found.boots.cell_id.map(cells.stage)).sort_values("order")
    assert cells.index.is_unique
    first, later = (boots[boots.stage == name] for name in ("as_configured", "matched"))
    assert (sorted(first.block), sorted(later.block)) == ([0, 0, 1, 1], [2, 2, 3, 3])
    assert set(first.boot) == set(later.boot) == {0, 1}
    assert list(later.kv_tokens) == [8192] * 4
    pinned = boots[boots.stage.isna()]
    assert pinned.cell_id.nunique() == 1
    assert sorted(pinned.block) == sorted(pinned.boot) == [0, 1, 2, 3]
    assert list(pinned.kv_tokens) == [4096] * 4
    # which of its loads are void is the noise of the machine; whose they are is not
    assert side_of(found, "output_tokens_per_s").reference == pinned.cell_id.iloc[0]
    shown = tables.get("kv_matched").build(found)
    assert shown is not None
    assert list(shown.frame.cell) == ["vllm", "sglang"]
    assert a_night(tmp_path)[0].started == 0


def test_a_night_that_ends_before_stage_1_is_complete_leaves_stage_2_to_the_next(
    tmp_path: Path,
) -> None:
    start = datetime(2026, 1, 1, 22, tzinfo=UTC)
    moments = iter([start, *[start + timedelta(hours=7)] * 9])  # over once a block has run
    [share] = a_night(tmp_path, deadline=start + timedelta(hours=6), now=lambda: next(moments))
    assert share.summary is not None
    assert share.summary.stored == 3
    assert share.summary.pending == ""
    assert list(share.not_reached) == [1, 2, 3]
    assert frozen(tmp_path) is None
