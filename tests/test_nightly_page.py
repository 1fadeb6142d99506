"""What a night says of itself against earlier nights."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from click.testing import CliRunner

from runner.cli import main
from tests.nights import Box, a_night, nights_before, noisy, written


def test_the_first_night_has_nothing_to_be_held_against(tmp_path: Path, box: Box) -> None:
    page = a_night(written(tmp_path, "one"), "n1")
    assert page.headline == "No verdict: nothing to hold this night against yet."
    assert page.exit_code == 4


def test_a_slowdown_of_10_percent_is_called_through_a_night_effect(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.02, 0.01, slow={"n2": 0.9})
    a_night(file, "n1")
    page = a_night(file, "n2")
    assert page.exit_code == 1
    assert re.search(r"REGRESSION: one: vllm random@c64 is 0\.\d+ \[", page.headline)


def test_equal_nights_are_not_called_though_each_night_moves_all(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.02, 0.01)
    pages = [a_night(file, f"n{number}") for number in range(6)]
    assert [page.headline for page in pages if page.exit_code == 1] == []


def test_without_a_pinned_cell_a_difference_is_shown_and_not_called(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one", pinned=False)
    box.speed = noisy(0.0, 0.01, slow={"n2": 0.7})
    a_night(file, "n1")
    page = a_night(file, "n2")
    assert page.exit_code == 4
    assert "1 earlier nights; t prediction interval on night means needs 10" in page.head
    assert re.search(r"0\.(69|70|71)\d* \[", page.head)


def test_ten_earlier_nights_judge_without_a_pinned_cell(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=2, pinned=False)
    box.speed = noisy(0.005, 0.002, slow={"n10": 0.9})
    nights_before(file, [f"n{number:02}" for number in range(9)])
    assert a_night(file, "n09").exit_code == 4
    assert "REGRESSION" in a_night(file, "n10").headline


def test_a_change_is_told_since_about_which_night(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=1, pinned=False)
    slow = {f"n{number:02}": 0.9 for number in range(15, 24)}
    box.speed = noisy(0.004, 0.002, slow=slow)
    nights_before(file, [f"n{number:02}" for number in range(23)])
    page = a_night(file, "n23")
    assert "since about night n15" in page.head
    assert page.exit_code == 1


def test_a_changed_chunk_is_named_beside_the_number_that_moved(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    a_night(file, "n1")
    box.columns = {"chunk_tokens": 8192, "image_digest": "sha256:beef"}
    page = a_night(file, "n2")
    assert "chunk (2048 of prefill and decodes became 8192 of prefill and decodes)" in page.head
    assert "image (unknown became sha256:beef)" in page.head


def test_a_change_is_named_beside_what_was_configured_otherwise_that_night(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one", boots=1, pinned=False)
    box.speed = noisy(0.004, 0.002, slow={f"n{number:02}": 0.9 for number in range(20, 23)})
    nights_before(file, [f"n{number:02}" for number in range(20)])
    box.columns = {"chunk_tokens": 512}
    nights_before(file, ["n20", "n21"])
    page = a_night(file, "n22")
    told = "since about night n20, when this changed: chunk (2048 of prefill and decodes became 512"
    assert told in page.headline


def test_a_load_that_asks_otherwise_is_not_held_against_the_old_one(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one")
    a_night(file, "n1")
    text = (tmp_path / "one.toml").read_text().replace("output_tokens = 128", "output_tokens = 96")
    (tmp_path / "one.toml").write_text(text)
    box.speed = noisy(0.0, 0.01, slow={"n2": 0.5})
    page = a_night(file, "n2")
    assert "one: random@c64 asks otherwise: output_tokens (128 became 96)" in page.head
    assert "not comparable, for these changed: output_tokens (128 became 96)" in page.head
    assert page.exit_code == 4


def test_a_pinned_cell_that_changed_itself_pins_nothing(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    a_night(file, "n1")
    box.columns = {"image_digest": "sha256:beef"}
    box.speed = noisy(0.0, 0.01, slow={"n2": 0.8})
    page = a_night(file, "n2")
    assert page.exit_code == 4
    assert "the pinned cell itself changed: image (unknown became sha256:beef)" in page.head


def test_a_night_that_was_cut_is_passed_over_for_one_with_enough_boots(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.0, 0.01, slow={"n3": 0.8})
    a_night(file, "n1")
    moment = datetime(2026, 12, 1, 22, tzinfo=UTC)
    times = iter([moment, *[moment + timedelta(hours=9)] * 4])
    a_night(file, "n2", deadline=moment + timedelta(hours=8), now=lambda: next(times))
    page = a_night(file, "n3")
    assert "REGRESSION" in page.headline
    assert "| night n1" in page.head


def test_each_figure_says_whether_to_believe_it(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.01, 0.002)
    a_night(file, "n1")
    boot_doubt = {"name": "gpu_throttled", "severity": "suspect", "subject": "GPU"}
    box.columns = {"doubts": [boot_doubt | {"sentence": "hot", "advice": ""}]}
    head = a_night(file, "n2").head
    assert "yes: 5 boots each, against the pinned cell; with care: gpu_throttled" in head
    assert "simulated: of a mechanism, not of a GPU" in head
    assert "the pinned cell stands at" in head


def test_one_boot_is_no_figure_to_believe(tmp_path: Path, box: Box) -> None:
    head = a_night(written(tmp_path, "one", boots=1), "n1").head
    assert "no: one boot alone" in head


def test_a_figure_of_few_boots_is_a_range(tmp_path: Path, box: Box) -> None:
    head = a_night(written(tmp_path, "one", boots=3), "n1").head
    assert "as a range, which holds the next boot in 50 %" in head


def test_nights_on_another_gpu_take_no_part(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=2, pinned=False)
    box.columns = {"gpu_names": ["NVIDIA A100"]}
    nights_before(file, [f"n{number:02}" for number in range(11)])
    box.columns = {}
    page = a_night(file, "n11")
    assert page.exit_code == 4
    assert "not comparable, for these changed: GPU" in page.head


def test_the_page_is_one_markdown_file_with_all_tables(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", "two", boots=2)
    ran = CliRunner().invoke(
        main, ["nightly", str(file), "--results", str(tmp_path / "results"), "--night", "n1"]
    )
    assert ran.exit_code == 4
    text = (tmp_path / "results" / "night-n1.md").read_text()
    for heading in ("# Night n1", "## What ran", "# one", "# two", "## Throughput", "## KV cache"):
        assert f"\n{heading}" in f"\n{text}"
    assert "SIMULATED" in text
    assert "# Night n1" in ran.output
