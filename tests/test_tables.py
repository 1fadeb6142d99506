"""Tables over stored boots: what they show, what they refuse to show, and why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runner import tables
from runner.report import report
from runner.stored.frames import Results, results
from runner.tables.columns import wanted
from runner.tables.grid import WIDTH
from tests.stored import Stored, the_example

GOLDEN = Path(__file__).parent / "golden"


def steady(folder: Path, *, boots: int, content_id: str = "c0ffee", **columns: Any) -> Any:
    """Store two cells whose boots differ by little."""
    stored = Stored(folder, content_id=content_id)
    for label, speed in (("vllm", 100.0), ("sglang", 101.0)):
        cell = stored.cell(label)
        for boot in range(boots):
            rate = speed * (1 + 0.004 * ((boot * 7) % 5 - 2))
            load = {"load": "random@c64", "output_tokens_per_s": rate, "ttft_p50_s": 0.2}
            stored.boot(cell, boot, [load | columns], kv_tokens=60_000)
    return stored


def shown(found: Results, *names: str) -> str:
    """Return tables as one line, wherever they wrap."""
    return re.sub(r"\s+", " ", report(found, names=names))


def rows(found: Results, name: str) -> list[dict[str, Any]]:
    built = tables.get(name).build(found)
    assert built is not None
    return [
        {str(key): value for key, value in row.items()} for row in built.frame.to_dict("records")
    ]


def test_the_example_that_must_not_be_misread(tmp_path: Path) -> None:
    text = report(the_example(tmp_path), names=["kv", "throughput", "ttft"])
    assert text == (GOLDEN / "table-two-kinds.txt").read_text()


def test_of_two_kinds_of_boots_no_mean_no_spread_and_no_ratio_is_printed(tmp_path: Path) -> None:
    text = shown(the_example(tmp_path))
    for figure in ("792", "842", "843", "22 048", "26 560", "25 282", "34 / 41 / 41"):
        assert figure in text
    assert "1 of 3 is compatible with 1 to 91 %" in text
    assert "No single mean or median" in text
    assert "±" not in text
    means = [825.67, 825.3, 842.5, 25056, 24950, 3333, 2978, 3.33]
    numbers = {float(n.replace(" ", "")) for n in re.findall(r"\d+(?: \d{3})*(?:\.\d+)?", text)}
    assert not [m for m in means if any(abs(n - m) < 0.002 * m for n in numbers - {842, 843})]
    assert not re.search(r"\d\.\d+ ?\[", text.partition("Settings")[0])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"kv_tokens": 61_000}, "KV tokens"),
        ({"chunk_tokens": 8192}, "chunk tokens"),
        ({"compile_cache": "cold"}, "compile cache"),
        ({"host": "another box"}, "machine"),
        ({"kv_tokens": None}, "KV tokens"),
    ],
)
def test_boots_that_differ_by_a_fact_have_rows_of_their_own(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    load = {"load": "random@c8", "output_tokens_per_s": 100.0}
    for boot in range(3):
        stored.boot(cell, boot, [load], **({"kv_tokens": 60_000} | (changed if boot else {})))
    found = rows(stored.read(), "throughput")
    assert [row["boots"] for row in found] == ["1, 2", "0"]
    assert all(named in row["kind"] for row in found)
    assert "median [range] tok/s" not in found[0]


def test_graphs_that_differ_beyond_the_rounding_of_a_log_make_kinds(tmp_path: Path) -> None:
    for name, sizes, kinds in (("near", (408e6, 417e6), 1), ("far", (408e6, 900e6), 2)):
        stored = Stored(tmp_path, name)
        cell = stored.cell("vllm")
        for boot, size in enumerate(sizes):
            fact = {"name": "graph_bytes", "value": str(int(size))}
            load = {"load": "random@c8", "output_tokens_per_s": 100.0}
            stored.boot(cell, boot, [load], [fact], kv_tokens=60_000)
        assert len(rows(stored.read(), "throughput")) == kinds


def test_boots_that_agree_show_a_median_its_range_and_what_may_be_unseen(tmp_path: Path) -> None:
    text = shown(steady(tmp_path, boots=3).read(), "throughput")
    assert "99.20 / 100 / 100.8 100 [99.20 - 100.8]" in text
    assert "it holds the next one in 50 % at 3" in text
    assert "up to 63 % of starts (3 boots)" in text


def test_from_20_boots_the_brackets_are_an_interval_of_the_median(tmp_path: Path) -> None:
    found = steady(tmp_path, boots=20).read()
    centre = rows(found, "throughput")[0]["median [range] tok/s"]
    assert centre.interval
    assert 99.2 <= centre.low <= centre.middle <= centre.high <= 100.8
    assert "95 % interval of the median" in shown(found, "throughput")


def test_every_boot_is_shown_up_to_the_end_of_a_screen(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    for boot in range(32):
        load = {"load": "random@c8", "output_tokens_per_s": 500.0 + boot}
        stored.boot(cell, boot, [load], kv_tokens=60_000)
    text = shown(stored.read(), "throughput")
    assert all(f"{500 + boot}" in text for boot in range(30))
    assert "and 2 more, see --format csv" in text


def test_one_boot_is_called_single_at_its_figure_and_among_the_doubts(tmp_path: Path) -> None:
    text = shown(steady(tmp_path, boots=1).read(), "throughput")
    assert "99.20 (single)" in text
    assert "single_boot: vllm random@c64: one boot alone" in text
    assert "Write boots = 3 or more" in text


def test_a_void_load_is_never_a_figure(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    for boot, verdict in enumerate(("ok", "void", "doubtful")):
        load = {"load": "random@c8", "output_tokens_per_s": 100.0 + 777 * (verdict == "void")}
        stored.boot(cell, boot, [load | {"verdict": verdict}], kv_tokens=60_000)
    [row] = rows(stored.read(), "throughput")
    assert row["output tok/s"] == (100.0, None, 100.0)
    assert row["median [range] tok/s"].boots == 2
    assert "877" not in shown(stored.read(), "throughput")


def test_failed_and_interrupted_boots_and_priming_ones_are_no_replicates(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    load = {"load": "random@c8", "output_tokens_per_s": 100.0}
    stored.boot(cell, 0, [load], kv_tokens=60_000, outcome="interrupted")
    stored.boot(cell, 0, [load | {"output_tokens_per_s": 90.0}], kv_tokens=60_000)
    stored.boot(cell, -1, [load], kv_tokens=60_000)
    [row] = rows(stored.read(), "throughput")
    assert row["output tok/s"] == (90.0,)


def test_a_p99_at_unequal_request_counts_has_no_median(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    for boot, ok in enumerate((300, 300, 150)):
        load = {"load": "random@c8", "ttft_p50_s": 0.1, "ttft_p99_s": 0.2, "ok": ok}
        stored.boot(cell, boot, [load], kv_tokens=60_000)
    [row] = rows(stored.read(), "ttft")
    assert row["p99 ms"] == (200.0, 200.0, 200.0)
    assert "median [range] p99" not in row
    assert row["median [range] p50"].middle == 100.0
    assert "150 to 300 requests a load" in shown(stored.read(), "ttft")


def test_a_p99_of_few_requests_is_shown_as_a_maximum_that_says_so(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    load = {"load": "random@c8", "ttft_p50_s": 0.1, "ttft_max_s": 0.3, "ok": 40}
    stored.boot(cell, 0, [load], kv_tokens=60_000)
    [row] = rows(stored.read(), "ttft")
    assert row["p99 ms"] == (300.0,)
    assert "few_requests" in row["doubts"]


def test_two_groups_that_no_fact_explains_are_a_doubt_from_8_boots_on(tmp_path: Path) -> None:
    for boots, named in ((7, False), (12, True)):
        stored = Stored(tmp_path, f"split{boots}")
        cell = stored.cell("vllm")
        for boot in range(boots):
            rate = (100.0 if boot % 2 else 120.0) + 0.1 * ((boot * 5) % 7)
            load = {"load": "random@c8", "output_tokens_per_s": rate}
            stored.boot(cell, boot, [load], kv_tokens=60_000)
        text = shown(stored.read(), "throughput")
        assert ("two groups or a long tail" in text) == named


def test_runs_and_experiments_are_never_one_row(tmp_path: Path) -> None:
    first, second = steady(tmp_path, boots=2), steady(tmp_path, boots=2, content_id="decade")
    text = shown(results(tmp_path / "restarts"), "throughput")
    assert f"vllm ({first.run.run_id})" in text
    assert f"vllm ({second.run.run_id})" in text
    the_example(tmp_path, "other")
    cells = [row["cell"] for row in rows(results(tmp_path), "throughput")]
    assert cells[:3] == ["other: vllm", "other: vllm", "other: sglang"]
    assert len(cells) == 7


def test_repeats_of_a_load_are_rows_and_no_replicates(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    for boot in range(2):
        loads = [
            {"load": "random@c8", "output_tokens_per_s": 100.0 + repeat, "repeat": repeat}
            for repeat in range(3)
        ]
        stored.boot(cell, boot, loads, kv_tokens=60_000)
    found = rows(stored.read(), "throughput")
    assert [row["load"] for row in found] == ["random@c8 #1", "random@c8 #2", "random@c8 #3"]
    assert {row["median [range] tok/s"].boots for row in found} == {2}


def test_kv_that_fits_all_requests_explains_nothing_and_is_not_spoken_of(tmp_path: Path) -> None:
    text = shown(steady(tmp_path, boots=3).read(), "kv")
    assert "93 / 93 / 93" in text
    assert "not all requests fit" not in text


def test_at_equal_kv_the_gap_is_the_gap_as_configured(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    for label, speed in (("vllm", 100.0), ("sglang", 110.0)):
        cell = stored.cell(label)
        for boot in range(5):
            rate = speed * (1 + 0.002 * boot)
            load = {"load": "random@c64", "output_tokens_per_s": rate}
            stored.boot(cell, boot, [load], kv_tokens=22_048)
    text = shown(stored.read(), "kv")
    assert "sglang over vllm is 1.100 [1.100 - 1.100] as configured." in text
    assert "sglang over vllm is 1.100 [1.100 - 1.100] at equal KV." in text


def test_no_table_reads_a_column_that_a_report_does_not_load(tmp_path: Path) -> None:
    the_example(tmp_path)
    folder = tmp_path / "restarts"
    assert report(results(folder)) == report(results(folder, wanted=wanted))


def test_every_table_fits_a_terminal(tmp_path: Path) -> None:
    for line in report(the_example(tmp_path)).splitlines():
        assert len(line) <= WIDTH


def test_every_table_has_a_name_and_a_place() -> None:
    assert len(tables.names()) == len(set(tables.names()))
    with pytest.raises(KeyError):
        tables.get("over_boots")


def test_what_is_compared_stands_side_by_side_as_observed(tmp_path: Path) -> None:
    text = report(the_example(tmp_path), names=["alignment"])
    assert text == (GOLDEN / "table-alignment.txt").read_text()


def many_kinds(folder: Path, concurrency: int) -> Results:
    """Store 20 boots of an engine whose memory is left free: 14 KV capacities, no two in five."""
    stored = Stored(folder)
    sglang = stored.cell("sglang", settings={"memory": {"fraction": 0.02}})
    vllm = stored.cell("vllm", settings={"memory": {"kv_tokens": 20480}})
    for boot in range(20):
        kv_tokens = 542_459 + 51_253 * ((boot * 5) % 14)
        rate = 540.0 + (boot * 7) % 11
        load = {"load": f"random@c{concurrency}", "output_tokens_per_s": rate}
        stored.boot(sglang, boot, [load], kv_tokens=kv_tokens)
        stored.boot(vllm, boot, [load], kv_tokens=20_480)
    found: Results = stored.read()
    return found


def test_many_kinds_of_boots_are_one_row_with_every_boot_and_their_range(tmp_path: Path) -> None:
    text = report(many_kinds(tmp_path, 32), names=["throughput"])
    assert text == (GOLDEN / "table-many-kinds.txt").read_text()


def test_of_many_kinds_no_mean_and_no_median_is_given(tmp_path: Path) -> None:
    [many, _] = rows(many_kinds(tmp_path, 32), "throughput")
    beside = many["median [range] tok/s"]
    assert (beside.middle, beside.low, beside.high) == (None, 540.0, 550.0)


@pytest.mark.parametrize(("concurrency", "fits"), [(32, True), (2000, False)])
def test_kinds_by_kv_say_where_the_kv_has_room_for_all(
    tmp_path: Path, concurrency: int, fits: bool
) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("sglang")
    for boot in range(5):
        load = {"load": f"random@c{concurrency}", "output_tokens_per_s": 100.0}
        kv_tokens = 100_000 * (boot + 1)
        stored.boot(cell, boot, [load], kv_tokens=kv_tokens, max_running=4096)
    [row] = rows(stored.read(), "throughput")
    assert ("each holds the 32 requests that run at once" in row["kind"]) == fits
