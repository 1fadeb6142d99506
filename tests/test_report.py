"""Reports in every form, exports, and one run held against another."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from runner.cli import main
from runner.report import report
from runner.tables.grid import told
from tests.stored import Stored, the_example

NOISE = (0.000, 0.004, -0.003, 0.002, -0.002, 0.001)


def ran(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in arguments], catch_exceptions=False)


def one_run(
    folder: Path,
    content_id: str,
    *,
    speed: float = 1.0,
    machine: float = 1.0,
    boots: int = 5,
    pinned: bool = True,
    **columns: Any,
) -> str:
    """Store a run of one cell, and of a pinned one, on a machine that is so fast that day."""
    stored = Stored(folder, content_id=content_id)
    cells = {stored.cell("vllm"): speed}
    if pinned:
        cells[stored.cell("reference", engine="vllm")] = 1.0
    for number, (cell, factor) in enumerate(cells.items()):
        for boot in range(boots):
            noise = NOISE[(boot + number) % 6]
            rate = 800 * factor * machine * (1 + noise)
            load = {"load": "random@c64", "output_tokens_per_s": rate}
            stored.boot(cell, boot, [load], **{"kv_tokens": 60_000, **columns})
    return str(stored.run.run_id)


def test_a_number_has_the_digits_that_mean_something() -> None:
    values = (25_282.0, 1234.56, 123.456, 12.3456, 1.23456, 0.0123456, 0.0)
    assert told(values) == "25 282 / 1235 / 123.5 / 12.35 / 1.235 / 0.012 / 0"


def test_json_holds_each_boot_the_sentences_and_the_doubts(tmp_path: Path) -> None:
    the_example(tmp_path)
    found = ran("report", tmp_path, "--table", "throughput", "--format", "json")
    entry = json.loads(found.output)
    assert entry["rows"][0]["output tok/s"] == [842.0, 843.0]
    assert entry["rows"][2]["output tok/s"] == [None, None, None]
    assert "several_kinds" in entry["doubts"]


def test_csv_is_one_row_for_a_row_and_joins_boots(tmp_path: Path) -> None:
    the_example(tmp_path)
    found = ran("report", tmp_path, "--table", "throughput", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(found.output)))
    assert [row["output tok/s"] for row in rows] == ["842.0;843.0", "792.0", ";;"]


def test_markdown_is_never_wrapped_and_bars_are_escaped(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    load = {"load": "random@c8", "output_tokens_per_s": 1.0}
    stored.boot(stored.cell("vllm name=a|b"), 0, [load], kv_tokens=60_000)
    text = ran("report", tmp_path, "--table", "throughput", "--format", "markdown").output
    assert "vllm name=a\\|b" in text
    assert "## Throughput" in text


def test_parquet_is_a_file_for_each_table_with_its_sentences(tmp_path: Path) -> None:
    the_example(tmp_path / "results")
    found = ran("report", tmp_path / "results", "--format", "parquet", "--out", tmp_path / "out")
    assert f"{tmp_path / 'out' / 'kv.parquet'}" in found.output
    frame = pd.read_parquet(tmp_path / "out" / "throughput.parquet")
    assert list(frame["output tok/s"][0]) == [842.0, 843.0]
    said = pq.read_schema(tmp_path / "out" / "kv.parquet").metadata or {}
    assert "No single mean" in json.loads(said[b"report"])["above"][0]


def test_parquet_needs_a_folder(tmp_path: Path) -> None:
    the_example(tmp_path)
    assert ran("report", tmp_path, "--format", "parquet").exit_code == 2
    assert ran("report", tmp_path, "--out", tmp_path).exit_code == 2


def test_a_table_that_there_is_not_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    the_example(tmp_path)
    found = ran("report", tmp_path, "--table", "through")
    assert found.exit_code == 2
    assert "Did you mean 'throughput'?" in found.output


def test_doubts_come_once_the_serious_first_and_the_many_are_counted(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    note = {"name": "client_lag", "severity": "note", "subject": "x", "advice": "Do that."}
    for boot in range(6):
        doubts = [note | {"sentence": f"it was {boot} ms late."}]
        load = {"load": "random@c8", "output_tokens_per_s": 1.0, "doubts": doubts}
        stored.boot(cell, boot, [load], kv_tokens=60_000 + 9000 * (boot == 0))
    text = report(stored.read(), names=["throughput"]).partition("\nDoubts\n")[2]
    assert text.index("several_kinds") < text.index("client_lag")
    assert "and 4 more" in text


@pytest.mark.parametrize(
    ("speed", "code", "said"),
    [(0.9, 1, "worse (p ="), (1.0, 0, "equal within 3 %"), (1.1, 0, "better (p =")],
)
def test_a_change_is_called_against_the_pinned_cell_whatever_the_machine_did(
    tmp_path: Path, speed: float, code: int, said: str
) -> None:
    before = one_run(tmp_path, "a11ce5")
    after = one_run(tmp_path, "b0b0b0", speed=speed, machine=0.98)
    folder = tmp_path / "restarts"
    found = ran("compare", f"{folder}@{before}", f"{folder}@{after}")
    assert said in found.output
    assert found.exit_code == code


def test_without_a_pinned_cell_the_difference_is_shown_and_nothing_is_called(
    tmp_path: Path,
) -> None:
    before = one_run(tmp_path, "a11ce5", pinned=False)
    after = one_run(tmp_path, "b0b0b0", speed=0.5, pinned=False)
    folder = tmp_path / "restarts"
    found = ran("compare", f"{folder}@{before}", f"{folder}@{after}")
    assert found.exit_code == 4
    assert "0.500 [0.49" in found.output
    assert "not enough data" in found.output


def test_what_changed_between_two_runs_is_named(tmp_path: Path) -> None:
    before = one_run(tmp_path, "a11ce5", chunk_tokens=2048, driver="550")
    after = one_run(tmp_path, "b0b0b0", chunk_tokens=8192, driver="560")
    folder = tmp_path / "restarts"
    text = re.sub(r"\s+", " ", ran("compare", f"{folder}@{before}", f"{folder}@{after}").output)
    assert "driver (550 became 560)" in text
    assert "chunk (2048 of prefill and decodes became 8192 of prefill and decodes)" in text


def test_another_gpu_forbids_any_comparison(tmp_path: Path) -> None:
    before = one_run(tmp_path, "a11ce5")
    after = one_run(tmp_path, "b0b0b0", gpu_names=["NVIDIA A100"])
    folder = tmp_path / "restarts"
    found = ran("compare", f"{folder}@{before}", f"{folder}@{after}")
    assert found.exit_code == 4
    assert "not comparable, for these changed: GPU" in re.sub(r"\s+", " ", found.output)


def test_a_run_is_not_held_against_itself(tmp_path: Path) -> None:
    one_run(tmp_path, "a11ce5")
    folder = tmp_path / "restarts"
    assert ran("compare", folder, folder).exit_code == 2
    assert ran("compare", f"{folder}@2001", folder).exit_code == 2


def test_an_export_is_one_file_a_table_with_experiment_and_run(tmp_path: Path) -> None:
    the_example(tmp_path / "results")
    ran("export", tmp_path / "results", "--out", tmp_path / "out")
    boots = pd.read_parquet(tmp_path / "out" / "boots.parquet")
    assert list(boots.experiment.unique()) == ["restarts"]
    assert len(boots) == 6
    units = pq.read_schema(tmp_path / "out" / "boots.parquet").field("ready_s").metadata or {}
    assert units[b"unit"] == b"s"


def test_an_export_to_csv_spells_lists(tmp_path: Path) -> None:
    the_example(tmp_path / "results")
    asked = ("--table", "boots", "--format", "csv")
    ran("export", tmp_path / "results", "--out", tmp_path / "out", *asked)
    boots = pd.read_csv(tmp_path / "out" / "boots.csv")
    assert set(boots.gpu_names) == {"['NVIDIA H100']"}
    assert ran("export", tmp_path / "results", "--out", tmp_path, "--table", "x").exit_code == 2


def test_html_is_one_page_whose_every_word_is_escaped(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    load = {"load": "random@c8", "output_tokens_per_s": 1.0}
    stored.boot(stored.cell("vllm <script>alert(1)</script>", engine="vllm"), 0, [load])
    text = ran("report", tmp_path, "--format", "html").output
    assert text.startswith("<!doctype html>")
    assert "<script" not in text
    assert "vllm &lt;script&gt;" in text
    assert "single_boot" in text


def test_what_is_no_measurement_says_so_in_every_form(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    load = {"load": "random@c8", "output_tokens_per_s": 1.0}
    stored.boot(stored.cell("vllm", simulated=True), 0, [load], simulated=True)
    for form in ("text", "markdown", "html"):
        assert "SIMULATED" in ran("report", tmp_path, "--format", form).output
    named = ("--table", "throughput", "--format")
    [row] = csv.DictReader(io.StringIO(ran("report", tmp_path, *named, "csv").output))
    assert row["no measurement"] == "simulated"
    assert "SIMULATED" in json.loads(ran("report", tmp_path, *named, "json").output)["labels"][0]
