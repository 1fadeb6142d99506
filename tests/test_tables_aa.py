"""A/A: the twin is planned beside its cell, audited over runs, and a floor under margins."""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines.sim.options import Simulate
from engines.sim.pace import factor_of
from runner.experiment.read import read
from runner.plan import Plan, expand
from runner.plan.launch import program
from runner.report import report
from runner.sides.between import Pair, between
from runner.sides.side import Side, side_of
from runner.stats.interval import Interval, LogMean, interval, paired, single
from runner.stats.verdict import Rules, Verdict
from runner.stored.frames import results
from runner.tables.aa import build
from runner.tables.comparison import build as comparison
from runner.tables.samples import samples
from tests.stored import FILE, Stored

METRIC = "output_tokens_per_s"
WITH_TWIN = FILE + "\n[aa]\nboots = 3\n"
SIMULATED_FILE = """
question = "Does the twin draw its own boots?"
boots = 2
[common]
model = "Qwen/Qwen3-1.7B"
[engines.vllm]
simulate = {}
[aa]
boots = 2
[[loads]]
workload = "random"
input_tokens = 64
output_tokens = 16
concurrency = 4
requests = 8
"""


def planned(folder: Path, boots: int) -> Plan:
    file = folder / "x.toml"
    file.write_text(FILE + f"\n[aa]\nboots = {boots}\n")
    return expand(read(file))


def run(folder: Path, number: int, *, sd: float, boots: int = 5, twin: float = 1.0) -> Any:
    """Store one run of vllm, its twin and sglang, whose boots vary by `sd`."""
    stored = Stored(folder, file=WITH_TWIN + "\n[compare]\n", content_id=f"{number:06}")
    draw = random.Random(number)
    speeds = {"vllm": 800.0, "aa": 800.0 * twin, "sglang": 800.0}
    for label, speed in speeds.items():
        cell = stored.cell(label, engine="sglang" if label == "sglang" else "vllm")
        for boot in range(boots):
            rate = speed * (1 + draw.gauss(0, sd))
            load = {"load": "random@c64", "output_tokens_per_s": rate}
            stored.boot(cell, boot, [load], kv_tokens=60_000)
    return stored


def test_the_twin_stands_beside_its_cell_in_the_first_blocks(tmp_path: Path) -> None:
    plan = planned(tmp_path, 2)
    assert [cell.label for cell in plan.cells] == ["vllm", "sglang", "aa"]
    assert sorted(boot.block for boot in plan.boots if boot.cell.label == "aa") == [0, 1]
    vllm, _, twin = plan.cells
    assert (twin.keys, twin.section, twin.engine) == (vllm.keys, vllm.section, vllm.engine)
    assert twin.cell_id != vllm.cell_id


def test_more_boots_of_the_twin_continue_the_run(tmp_path: Path) -> None:
    assert planned(tmp_path, 2).content_id == planned(tmp_path, 3).content_id


def test_the_twin_is_no_pair_of_a_comparison(tmp_path: Path) -> None:
    text = report(run(tmp_path, 1, sd=0.005).read(), names=["comparison"])
    assert "aa" not in text.replace("of each", "")


def test_equal_boots_alarm_in_no_run_and_the_rate_has_its_limit(tmp_path: Path) -> None:
    for number in range(6):
        run(tmp_path, number, sd=0.005)
    shown = build(results(tmp_path / "restarts"))
    assert shown is not None
    assert shown.above == ["restarts: 6 nights, 0 alarms, rate at most 39 % (output_tokens_per_s)."]
    assert set(shown.frame["called"]) == {"nothing"}


def test_a_twin_that_differs_is_an_alarm(tmp_path: Path) -> None:
    shown = build(run(tmp_path, 1, sd=0.003, twin=0.9).read())
    assert shown is not None
    assert list(shown.frame["called"]) == ["ALARM: worse"]
    assert "1 nights, 1 alarms" in shown.above[0]


def test_three_boots_can_call_no_alarm_and_are_no_night(tmp_path: Path) -> None:
    shown = build(run(tmp_path, 1, sd=0.005, boots=3).read())
    assert shown is not None
    assert "no run yet with 5 boots of both" in shown.above[0]


@pytest.mark.parametrize(("sd", "resolves"), [(0.002, True), (0.05, False)])
def test_a_margin_that_the_bench_cannot_resolve_is_refused(
    tmp_path: Path, sd: float, resolves: bool
) -> None:
    shown = comparison(run(tmp_path, 3, sd=sd).read())
    assert shown is not None
    refused = any("this bench cannot resolve 3 %" in line for line in shown.above)
    assert refused is not resolves
    [said] = shown.frame["verdict"]
    assert said.startswith("equal within 3 %") is resolves


def test_a_simulated_twin_draws_its_own_boots_and_shares_the_night() -> None:
    one = Simulate(boot=0, night=3, seed=1, boot_sd_ratio=0.01)
    assert factor_of(replace(one, name="aa")) != factor_of(one)
    of_night = replace(one, boot_sd_ratio=0.0, night_sd_ratio=0.02)
    assert factor_of(replace(of_night, name="aa")) == factor_of(of_night) != 1.0


def test_the_command_of_a_simulated_twin_says_its_name(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(SIMULATED_FILE)
    cells = {cell.label: cell for cell in expand(read(file)).cells}
    named = json.loads(program(cells["aa"], 0)[-1])["name"]
    assert named.endswith(" aa")
    assert named != json.loads(program(cells["vllm"], 0)[-1])["name"]


def test_nights_are_not_called_equal_within_less_than_the_a_a_resolves() -> None:
    cell = [800.0, 801.0, 799.0, 800.5, 799.5, 800.2]
    wide = interval(paired([800.0, 860.0, 750.0, 840.0, 770.0, 800.0], cell))
    assert isinstance(wide, Interval)
    sides = {}
    for floors in ({}, {"random@c64": wide}):
        word = night_verdict(cell, floors)
        sides[bool(floors)] = (word.word, word.reason)
    assert sides[False][0] == "equal"
    assert sides[True][0] == "not enough data"
    assert sides[True][1].startswith("this bench cannot resolve 3 %")


def night_verdict(figures: list[float], floors: dict[str, Interval]) -> Verdict:
    """Judge a night whose boots are those of the night before, beside a pinned cell."""
    side = a_night(figures, floors)
    [judged] = between([Pair(now=side, then=side)], Rules(margin=0.03), metric=METRIC).judged
    return judged.verdict


def a_night(figures: list[float], floors: dict[str, Interval]) -> Side:
    with tempfile.TemporaryDirectory() as folder:
        stored = Stored(Path(folder), file=WITH_TWIN)
        cells = [stored.cell("vllm"), stored.cell("reference", name="reference")]
        for boot, rate in enumerate(figures):
            for cell in cells:
                load = {"load": "random@c64", "output_tokens_per_s": rate}
                stored.boot(cell, boot, [load], kv_tokens=60_000)
        return replace(side_of(stored.read(), METRIC), floors=floors)


def test_loads_and_requests_of_a_boot_are_no_further_boots(tmp_path: Path) -> None:
    stored = Stored(tmp_path, file=WITH_TWIN)
    cell = stored.cell("vllm")
    for boot in range(3):
        loads = [
            {"load": "random@c64", "repeat": n, "output_tokens_per_s": 800.0 + n, "ok": 10_000}
            for n in range(5)
        ]
        stored.boot(cell, boot, loads, kv_tokens=60_000)
    [sample] = samples(stored.read(), METRIC).values()
    assert len(sample.by_block) == len(sample.figures) == 3
    mean = single(list(sample.by_block.values()))
    assert isinstance(mean, LogMean)
    assert mean.n == 3
    assert mean.df == 2
