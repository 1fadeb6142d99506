"""The comparison table: paired by block, judged over a declared family, never over samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.errors import ExperimentError
from runner.experiment.pairs import pairs_of
from runner.experiment.read import read
from runner.plan import expand
from runner.report import report
from runner.stored.frames import Results, results
from runner.tables.comparison import build
from runner.tables.samples import samples
from tests.stored import FILE, Stored

GOLDEN = Path(__file__).parent / "golden"
NOISE = (0.000, 0.004, -0.003, 0.002, -0.002, 0.001)
DECLARED = FILE + "\n[compare]\n"


def written(
    folder: Path,
    gain: float,
    *,
    boots: int = 5,
    file: str = DECLARED,
    drift: float = 0.0,
    repeats: int = 1,
    content_id: str = "c0ffee",
    change: Callable[[str, int], dict[str, Any]] = lambda label, boot: {},
    load: str = "random@c64",
) -> Any:
    """Store vllm at 800 tok/s and sglang faster by a gain, both moved by what a block shares."""
    stored = Stored(folder, file=file, content_id=content_id)
    for label, speed in (("vllm", 800.0), ("sglang", 800.0 * gain)):
        cell = stored.cell(label)
        for boot in range(boots):
            noise = NOISE[boot % 6] if label == "sglang" else 0.0
            rate = speed * (1 + drift * boot) * (1 + noise)
            loads = [
                {"load": load, "output_tokens_per_s": rate, "repeat": n} for n in range(repeats)
            ]
            columns = {"kv_tokens": 60_000, **change(label, boot)}
            stored.boot(cell, boot, loads, **columns)
    return stored


def rows(found: Results) -> list[dict[str, Any]]:
    shown = build(found)
    assert shown is not None
    return [{str(k): v for k, v in row.items()} for row in shown.frame.to_dict("records")]


def only(found: Results) -> dict[str, Any]:
    [row] = rows(found)
    return row


def flat(found: Results) -> str:
    return re.sub(r"\s+", " ", report(found, names=["comparison"]))


def test_the_table_as_a_reader_sees_it(tmp_path: Path) -> None:
    text = report(written(tmp_path, 1.1).read(), names=["comparison"])
    assert text == (GOLDEN / "table-comparison.txt").read_text()


@pytest.mark.parametrize(
    ("gain", "word"), [(1.1, "better"), (0.9, "worse"), (1.001, "equal within 3 %")]
)
def test_five_boots_judge_a_clear_gain_a_clear_loss_and_equality(
    tmp_path: Path, gain: float, word: str
) -> None:
    row = only(written(tmp_path, gain).read())
    assert row["verdict"].startswith(word)
    assert row["ratio [95 %]"].middle == pytest.approx(gain, rel=0.002)
    assert row["blocks"] == 5


def test_what_a_block_shares_takes_no_part(tmp_path: Path) -> None:
    calm = only(written(tmp_path / "calm", 1.1).read())["ratio [95 %]"]
    moved = only(written(tmp_path / "moved", 1.1, drift=0.2).read())["ratio [95 %]"]
    assert (moved.low, moved.high) == pytest.approx((calm.low, calm.high))


def test_under_five_boots_nothing_is_called_and_the_price_of_more_is_named(tmp_path: Path) -> None:
    verdict = only(written(tmp_path, 1.5, boots=3).read())["verdict"]
    assert "3 boots a side; a verdict needs 5" in verdict
    assert re.search(r"2( to \d+)? more boots of each, about \d+( to \d+)? GPU minutes", verdict)
    assert "from these boots" in verdict


def test_loads_and_repeats_are_no_replicates(tmp_path: Path) -> None:
    row = only(written(tmp_path, 1.1, boots=3, repeats=5).read())
    assert row["blocks"] == 3
    assert "not enough data" in row["verdict"]


def test_a_boot_is_the_geometric_mean_of_its_repeats(tmp_path: Path) -> None:
    stored = Stored(tmp_path, file=DECLARED, content_id="c0ffee")
    cell = stored.cell("vllm")
    for boot in range(2):
        loads = [
            {"load": "random@c64", "output_tokens_per_s": rate, "repeat": n, "order": n + boot}
            for n, rate in enumerate((100.0, 400.0))
        ]
        stored.boot(cell, boot, loads, kv_tokens=60_000)
    [sample] = samples(stored.read(), "output_tokens_per_s").values()
    assert sample.figures == pytest.approx((200.0, 200.0))


def test_m_counts_what_was_declared_measured_or_not(tmp_path: Path) -> None:
    file = DECLARED.replace("concurrency = 64", "concurrency = [1, 8, 64]")
    text = flat(written(tmp_path, 1.1, file=file).read())
    assert "Holm over m = 3" in text
    assert text.count("has no figure at this load") == 2
    chosen = file + 'loads = ["random@c64"]\n'
    assert "Holm over m = 1" in flat(written(tmp_path / "one", 1.1, file=chosen).read())


def test_without_a_compare_table_nothing_is_equal_but_the_smallest_margin_is_named(
    tmp_path: Path,
) -> None:
    row = only(written(tmp_path, 1.001, file=FILE).read())
    assert "no margin was declared" in row["verdict"]
    assert row["equal within"].endswith("%")


def test_looks_that_were_planned_cost_level(tmp_path: Path) -> None:
    row = only(written(tmp_path, 1.1, file=DECLARED + "looks = 2\n").read())
    assert "ratio [97.5 %]" in row


def test_what_was_declared_after_looking_is_called_exploration(tmp_path: Path) -> None:
    stored = written(tmp_path, 1.1, file=FILE)
    stored.run.note_file(DECLARED)
    text = flat(stored.read())
    assert "[compare] was written after 10 boots were stored" in text
    stored.run.note_file(DECLARED.replace("How much", "By how much"))
    assert "after 10 boots" in flat(stored.read())


def test_cells_that_are_not_comparable_have_no_ratio(tmp_path: Path) -> None:
    gpus = {"vllm": ["NVIDIA H100"], "sglang": ["NVIDIA A100"]}
    found = written(tmp_path, 1.1, change=lambda label, boot: {"gpu_names": gpus[label]}).read()
    assert only(found)["verdict"] == "not enough data: not comparable, see above"
    assert only(found)["ratio [95 %]"] is None
    assert "not comparable because GPU (NVIDIA A100 against NVIDIA H100)" in flat(found)


def test_boots_of_two_kinds_are_compared_kind_by_kind_and_not_judged(tmp_path: Path) -> None:
    def change(label: str, boot: int) -> dict[str, Any]:
        return {"kv_tokens": 50_000 if label == "vllm" and boot < 2 else 60_000}

    first, *others = rows(written(tmp_path, 1.1, change=change).read())
    assert first["ratio [95 %]"] is None
    assert "boots of vllm are of 2 kinds" in first["verdict"]
    assert [row["blocks"] for row in others] == [3, 2]
    assert others[0]["verdict"] == "vllm with KV tokens 60 000 (3 of 5 boots); not judged"


def test_a_block_with_one_side_is_left_out_and_told(tmp_path: Path) -> None:
    stored = written(tmp_path, 1.1, boots=5)
    void = {"load": "random@c64", "output_tokens_per_s": 9e9, "verdict": "void"}
    stored.boot(stored.cells[0]["cell_id"], 5, [void], kv_tokens=60_000)
    good = {"load": "random@c64", "output_tokens_per_s": 880.0}
    stored.boot(stored.cells[1]["cell_id"], 5, [good], kv_tokens=60_000)
    assert only(stored.read())["blocks"] == 5
    assert "block 5 has one side only" in flat(stored.read())


def test_a_p99_of_unequal_request_counts_is_not_compared(tmp_path: Path) -> None:
    stored = Stored(tmp_path, file=DECLARED + 'metric = "ttft_p99_s"\n')
    for label, ok in (("vllm", 300), ("sglang", 150)):
        cell = stored.cell(label)
        for boot in range(5):
            stored.boot(cell, boot, [{"load": "random@c64", "ttft_p99_s": 0.2, "ok": ok}])
    assert "a p99 compares at equal counts only" in only(stored.read())["verdict"]


def test_a_lower_latency_is_better(tmp_path: Path) -> None:
    stored = Stored(tmp_path, file=DECLARED + 'metric = "ttft_p50_s"\n')
    for label, ttft_s in (("vllm", 0.2), ("sglang", 0.1)):
        cell = stored.cell(label)
        for boot in range(5):
            load = {"load": "random@c64", "ttft_p50_s": ttft_s * (1 + NOISE[boot])}
            stored.boot(cell, boot, [load])
    assert only(stored.read())["verdict"].startswith("better")


def test_two_groups_that_no_fact_explains_forbid_a_verdict(tmp_path: Path) -> None:
    stored = Stored(tmp_path, file=DECLARED)
    for label in ("vllm", "sglang"):
        cell = stored.cell(label)
        for boot in range(12):
            slow = 0.7 if label == "vllm" and boot % 2 else 1.0
            rate = 800 * slow * (1 + NOISE[boot % 6])
            load = {"load": "random@c64", "output_tokens_per_s": rate}
            stored.boot(cell, boot, [load], kv_tokens=60_000)
    assert "two groups or a long tail" in only(stored.read())["verdict"]


def test_past_runs_tell_the_spread_where_these_boots_are_too_few(tmp_path: Path) -> None:
    written(tmp_path, 1.02, boots=6, content_id="a11ce5")
    now = written(tmp_path, 1.02, boots=2, content_id="b0b0b0")
    latest = results(tmp_path / "restarts", runs=[now.run.run_id])
    assert "from 1 earlier runs" in flat(latest)


LABELS = (
    "vllm weights=as_stored",
    "vllm weights=fp8",
    "sglang weights=as_stored",
    "sglang weights=fp8",
)


@pytest.mark.parametrize(
    ("asked", "count"), [("neighbours", 4), ("first", 3), ("all", 6), ([LABELS[:2]], 1)]
)
def test_pairs_are_of_cells_that_differ_in_one_thing_unless_asked(
    asked: str | Sequence[tuple[str, str]], count: int
) -> None:
    assert len(pairs_of(LABELS, asked)) == count


def test_a_neighbour_is_held_against_the_one_written_before_it() -> None:
    assert pairs_of(("vllm", "sglang"), "neighbours") == (("sglang", "vllm"),)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('pairs = [["vllm", "sglangg"]]', "Did you mean 'sglang'?"),
        ('loads = ["random@c9"]', 'no load is called "random@c9"'),
        ('metric = "speed"', "must be"),
        ("margin_ratio = 0", "above 0"),
    ],
)
def test_a_comparison_of_what_there_is_not_is_refused_before_anything_starts(
    tmp_path: Path, keys: str, said: str
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f"{DECLARED}{keys}\n")
    with pytest.raises(ExperimentError, match=re.escape(said)):
        expand(read(path))


def test_what_is_compared_is_no_part_of_any_identity(tmp_path: Path) -> None:
    for name, text in (("plain", FILE), ("declared", DECLARED + "margin_ratio = 0.1\n")):
        (tmp_path / f"{name}.toml").write_text(text)
    plain, declared = (expand(read(tmp_path / f"{n}.toml")) for n in ("plain", "declared"))
    assert plain.content_id == declared.content_id
    assert [cell.cell_id for cell in plain.cells] == [cell.cell_id for cell in declared.cells]
