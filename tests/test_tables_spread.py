"""Start-up phases, restart variance and what a plan can find: strata that are never averaged."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runner.cli import main
from runner.experiment.read import read
from runner.plan import expand
from runner.plan.text import planned
from runner.stored.frames import results
from runner.tables import Centre, phases, variance
from tests.stored import FILE, Stored, the_example


def spread_out(
    folder: Path,
    *,
    boots: int,
    repeats: int,
    boot_sd: float,
    repeat_sd: float,
    night: str | None = None,
    number: int = 0,
) -> Any:
    """Store one cell whose boots and load repeats vary by themselves."""
    stored = Stored(folder, night=night, content_id=f"{number:06}")
    cell, draw = stored.cell("vllm"), random.Random(number)
    for boot in range(boots):
        own = 800 * (1 + draw.gauss(0, boot_sd))
        loads = [
            {
                "load": "random@c64",
                "repeat": repeat,
                "output_tokens_per_s": own * (1 + draw.gauss(0, repeat_sd)),
                "duration_s": 30.0,
            }
            for repeat in range(repeats)
        ]
        stored.boot(cell, boot, loads, kv_tokens=60_000)
    return stored


def table(found: Any) -> list[dict[Any, Any]]:
    shown = variance.build(found)
    assert shown is not None
    return shown.frame.to_dict("records")


def test_cold_and_warm_and_first_and_later_starts_are_rows_of_their_own(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    for boot, cache in enumerate(["cold", "warm", "warm"]):
        facts = [
            {"name": "compile_s", "value": str(60 if cache == "cold" else 4), "rank": rank}
            for rank in ("0", "1")
        ]
        ready_s = 120.0 if cache == "cold" else 40.0 + boot
        stored.boot(cell, boot, [], facts, compile_cache=cache, ready_s=ready_s)
    shown = phases.build(stored.read())
    assert shown is not None
    rows = shown.frame.to_dict("records")
    assert [(row["start"], row["boots"]) for row in rows] == [
        ("first, cold", "0"),
        ("later, warm", "1, 2"),
    ]
    assert rows[0]["ready s"].middle == 120.0
    assert rows[1]["ready s"] == Centre(middle=41.5, low=41.0, high=42.0, boots=2)
    assert [row["compile s"].middle for row in rows] == [60.0, 4.0]
    assert "first_boot_cold" in shown.doubts


def test_a_priming_start_is_the_first_and_boot_0_a_later_one(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    stored.boot(cell, -1, [], compile_cache="cold", ready_s=120.0)
    stored.boot(cell, 0, [], compile_cache="warm", ready_s=40.0)
    shown = phases.build(stored.read())
    assert shown is not None
    assert list(shown.frame["start"]) == ["first, cold", "later, warm"]
    assert list(shown.frame["boots"]) == ["priming", "0"]


def test_one_cell_of_3_boots_says_that_the_restarts_share_is_not_estimable(tmp_path: Path) -> None:
    [row] = table(spread_out(tmp_path, boots=3, repeats=2, boot_sd=0.02, repeat_sd=0.01).read())
    said = row["of which the restart"]
    assert re.match(r"boot share not estimable \(\d+ to \d+ %\); 7 more boots", said)
    assert row["next plan"] is None


def test_without_repeats_no_share_is_told_but_the_spread_is(tmp_path: Path) -> None:
    [row] = table(spread_out(tmp_path, boots=6, repeats=1, boot_sd=0.02, repeat_sd=0.0).read())
    assert row["of which the restart"] == (
        "not estimable: the load needs repeats = 2 or more in each boot"
    )
    assert row["sd of boots %"].low < 2 < row["sd of boots %"].high


def test_ten_boots_tell_the_restarts_share_and_the_next_plan_with_its_cost(
    tmp_path: Path,
) -> None:
    [row] = table(spread_out(tmp_path, boots=12, repeats=4, boot_sd=0.03, repeat_sd=0.003).read())
    share = re.match(r"(\d+) % \[(\d+) - (\d+)\]", row["of which the restart"])
    assert share is not None
    assert int(share[2]) > 80
    assert re.match(
        r"\d+ boots x 1 repeats find 3 % between two cells \(m = 1\), about \d+ minutes",
        row["next plan"],
    )


def test_repeats_of_a_load_are_never_boots(tmp_path: Path) -> None:
    """Pooling loads as replicates gave 29 to 46 % false alarms: n counts boots alone."""
    [row] = table(spread_out(tmp_path, boots=3, repeats=5, boot_sd=0.02, repeat_sd=0.001).read())
    assert row["cells x boots"] == "1 x 3"
    assert row["sd of boots %"].boots == 3


def test_boots_of_several_kinds_are_no_spread(tmp_path: Path) -> None:
    assert variance.build(the_example(tmp_path)) is None or "vllm" not in str(
        table(the_example(tmp_path / "again"))
    )


@pytest.mark.parametrize(("nights", "told"), [(3, "not estimable under 10 nights"), (12, "% [")])
def test_the_nights_share_needs_ten_nights(tmp_path: Path, nights: int, told: str) -> None:
    for number in range(nights):
        last = spread_out(
            tmp_path,
            boots=3,
            repeats=1,
            boot_sd=0.01,
            repeat_sd=0.0,
            night=f"n{number:02}",
            number=number,
        )
    found = results(tmp_path / "restarts", runs=[last.run.run_id])
    [row] = [row for row in table(found) if "nights" in row["load"]]
    assert row["load"] == f"random@c64, over {nights} nights"
    assert told in row["of which the restart"]


def plan_text(folder: Path, boots: int, compare: str = "[compare]") -> str:
    file = folder / "restarts.toml"
    file.write_text(FILE.replace("boots = 3", f"boots = {boots}") + f"\n{compare}\n")
    return planned(expand(read(file)), {})


def test_a_plan_of_three_boots_says_that_no_verdict_can_come_of_it(tmp_path: Path) -> None:
    text = plan_text(tmp_path, 3)
    assert "What it can find in output_tokens_per_s: m = 1, 1 pair at 1 load" in text
    assert "no verdict: 3 boots of each, and a verdict needs 5" in text


def test_a_plan_names_the_smallest_difference_and_what_it_assumes(tmp_path: Path) -> None:
    found = [
        float(re.findall(r"smallest difference: ([\d.]+) % in 80 %", plan_text(tmp_path, boots))[0])
        for boots in (5, 20)
    ]
    assert found[0] > found[1] > 0.5
    assert "which nobody has measured here" in plan_text(tmp_path, 5)


def test_past_boots_replace_the_assumption_and_tell_the_cheapest_plan(tmp_path: Path) -> None:
    plan_text(tmp_path, 5)
    file = tmp_path / "restarts.toml"
    ids = [cell.cell_id for cell in expand(read(file)).cells]
    stored = Stored(tmp_path / "results", file=file.read_text())
    draw = random.Random(1)
    for label in ("vllm", "sglang"):
        stored.cell(label)
    for cell, cell_id in zip(stored.cells, ids, strict=True):
        cell["cell_id"] = cell_id
    stored.run.put_cells(stored.cells)
    for cell_id in ids:
        for boot in range(11):
            own = 800 * (1 + draw.gauss(0, 0.03))
            loads = [
                {
                    "load": "random@c64",
                    "repeat": repeat,
                    "output_tokens_per_s": own * (1 + draw.gauss(0, 0.01)),
                    "duration_s": 30.0,
                }
                for repeat in range(2)
            ]
            stored.boot(cell_id, boot, loads, kv_tokens=60_000)
    ran = CliRunner().invoke(main, ["plan", str(file), "--results", str(tmp_path / "results")])
    assert ran.exit_code == 0, ran.output
    assert re.search(r"the ratio of two boots varies by \d[\d.]* % in 1 earlier runs", ran.output)
    assert re.search(r"cheapest: vllm random@c64: \d+ boots x \d+ repeats find 3 %", ran.output)
