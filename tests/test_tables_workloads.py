"""Tables of what a workload is asked for, and the article's figures beside ours."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from runner import tables
from runner.report import report
from runner.stored.frames import Results
from runner.tables.article import published
from tests.stored import FILE, Stored, the_example

MS = 1_000_000


def request(number: int, sent_ms: int, chunks_ms: Sequence[int], **columns: Any) -> dict[str, Any]:
    """Return a row of `requests` that was sent and got a token at each of these times."""
    return {
        "request": number,
        "sent_ns": sent_ms * MS,
        "first_ns": chunks_ms[0] * MS,
        "last_ns": chunks_ms[-1] * MS,
        "ended_ns": chunks_ms[-1] * MS,
        "chunk_ns": [at * MS for at in chunks_ms],
        "chunk_tokens": [1] * len(chunks_ms),
        "output_tokens": len(chunks_ms),
        **columns,
    }


def shown(found: Results, *names: str) -> str:
    return re.sub(r"\s+", " ", report(found, names=names))


def rows(found: Results, name: str) -> list[dict[str, Any]]:
    built = tables.get(name).build(found)
    assert built is not None
    return [{str(k): v for k, v in row.items()} for row in built.frame.to_dict("records")]


def test_the_first_request_of_a_prefix_stands_beside_the_later_ones(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    sent = [
        request(0, 0, [400], role="first", group="a"),
        request(1, 500, [530], role="later", group="a"),
        request(2, 600, [626], role="later", group="a"),
        request(3, 0, [410], role="later", group="a"),  # before the prefix was there
    ]
    load = {"load": "shared_prefix@c1"}
    for boot in range(2):
        stored.boot(cell, boot, [load], requests={"shared_prefix@c1": sent}, kv_tokens=60_000)
    [row] = rows(stored.read(), "prefix")
    assert row["first p50 ms"] == pytest.approx((400.0, 400.0))
    assert row["later p50 ms"] == pytest.approx((28.0, 28.0))
    assert row["later / first"] == pytest.approx((0.07, 0.07))
    assert row["sent too early"] == (1.0, 1.0)


def test_the_largest_gap_of_a_victim_is_told_inside_and_outside_an_injection(
    tmp_path: Path,
) -> None:
    stored = Stored(tmp_path)
    victim = request(0, 0, [10, 20, 30, 260, 270, 285], role="victim")
    injected = request(1, 35, [255, 258], role="injected")
    cell = stored.cell("sglang")
    load = {"load": "interference@r0.5", "level_kind": "rate_per_s"}
    sent = {"interference@r0.5": [victim, injected]}
    stored.boot(cell, 0, [load], requests=sent, kv_tokens=60_000)
    [row] = rows(stored.read(), "interference")
    assert row["largest ITL inside ms"] == pytest.approx((230.0,))
    assert row["outside ms"] == pytest.approx((15.0,))
    assert row["injected TTFT p50 ms"] == pytest.approx((220.0,))
    assert row["stall ms"] == pytest.approx((220.0,))


def test_without_an_overlap_interference_has_no_figure(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    sent = [request(0, 0, [10, 20], role="victim"), request(1, 100, [150], role="injected")]
    load = {"load": "interference@r0.5", "level_kind": "rate_per_s"}
    cell = stored.cell("sglang")
    stored.boot(cell, 0, [load], requests={"interference@r0.5": sent}, kv_tokens=60_000)
    [row] = rows(stored.read(), "interference")
    assert "largest ITL inside ms" not in row or row["largest ITL inside ms"] == (None,)


STRUCTURED = """
question = "What does a schema cost?"
boots = 2
[common]
model = "Qwen/Qwen3-1.7B"
[engines.sglang]
simulate = {}
[[loads]]
name = "asked"
workload = "structured"
constrained = false
output_tokens = 512
concurrency = 8
requests = 100
[[loads]]
name = "constrained"
workload = "structured"
constrained = true
output_tokens = 512
concurrency = 8
requests = 100
"""


def test_constrained_answers_are_held_against_free_ones_boot_by_boot(tmp_path: Path) -> None:
    stored = Stored(tmp_path, file=STRUCTURED)
    cell = stored.cell("sglang")
    usual = {"workload": "structured", "level": 8.0, "ok": 100, "output_tokens": 7400}
    for boot in range(2):
        loads = [
            {"load": "asked@c8", "output_tokens_per_s": 400.0, **usual},
            {"load": "constrained@c8", "output_tokens_per_s": 388.0 + 20 * boot, **usual},
        ]
        cold = [request(0, 0, [90], role="cold", group="person")]
        warm = [request(n, 100, [120], role="warm", group="person") for n in (1, 2)]
        stored.boot(
            cell, boot, loads, requests={"constrained@c8": [*cold, *warm]}, kv_tokens=60_000
        )
    text = shown(stored.read(), "structured")
    assert "constrained over free output tok/s of each boot 0.970 / 1.020" in text
    found = rows(stored.read(), "structured")
    assert found[1]["cold TTFT ms"] == pytest.approx((90.0, 90.0))
    assert found[1]["warm TTFT ms"] == pytest.approx((20.0, 20.0))
    assert found[0]["tokens an answer"] == (74.0, 74.0)


def test_shares_of_valid_answers_are_of_finished_ones_and_cost_is_at_equal_lengths(
    tmp_path: Path,
) -> None:
    stored = Stored(tmp_path, file=STRUCTURED)
    cell = stored.cell("sglang")
    schema = {"type": "object", "required": ["a"]}
    for boot in range(2):
        loads, sent = [], {}
        for name, constrained in (("asked", False), ("constrained", True)):
            spec = {"constrained": constrained, "output_tokens": 4}
            asked = {"spec": spec, "contents": {"some/thing.json": schema}}
            usual = {"workload": "structured", "level": 8.0, "output_tokens_per_s": 100.0}
            loads.append({"load": f"{name}@c8", "asked": json.dumps(asked), **usual})
            end_ms = 40 if constrained else 20
            sent[f"{name}@c8"] = [
                request(0, 0, [1, end_ms], group="thing", answer='{"a": 1}'),
                request(1, 0, [1, end_ms], group="thing", answer="[]"),
                request(2, 0, [1, 2, 3, 4], group="thing", answer='{"a": '),  # cut
                request(3, 0, [1, 2, 3], group="thing", answer="well"),
                request(4, 0, [1, 2, 3], group="thing", answer='{"a": 2}'),
            ]
        stored.boot(cell, boot, loads, requests=sent, kv_tokens=60_000)
    found = stored.read()
    for row in rows(found, "structured"):
        assert row["finished %"] == (80.0, 80.0)
        assert row["JSON %"] == (75.0, 75.0)
        assert row["valid %"] == (50.0, 50.0)
    text = shown(found, "structured")
    assert "end to end at equal lengths 1.800 / 1.800" in text
    assert "sglang constrained@c8 boot 0: 50 % of its finished answers obey the schema" in text
    assert "asked@c8 boot 0: 50 %" not in text


def simulated_answer(folder: Path, *, constrained: bool, answer: str) -> Results:
    stored = Stored(folder, file=STRUCTURED)
    cell = stored.cell("sglang", simulated=True)
    spec = {"constrained": constrained, "output_tokens": 4}
    asked = {"spec": spec, "contents": {"some/thing.json": {"type": "object"}}}
    load = {"load": "asked@c8", "workload": "structured", "level": 8.0}
    load |= {"asked": json.dumps(asked), "output_tokens_per_s": 100.0}
    sent = {"asked@c8": [request(0, 0, [1, 2], group="thing", answer=answer)]}
    stored.boot(cell, 0, [load], requests=sent, kv_tokens=60_000, simulated=True)
    read: Results = stored.read()
    return read


def test_what_the_simulated_engine_writes_freely_is_never_judged_as_json(tmp_path: Path) -> None:
    found = simulated_answer(tmp_path, constrained=False, answer=" abc bcd")
    [row] = rows(found, "structured")
    assert not {"valid %", "JSON %"} & row.keys()
    text = shown(found, "structured")
    assert "what share of free answers a model would get right is unknown" in " ".join(text.split())
    assert "invalid_answers" not in text


@pytest.mark.parametrize(("answer", "percent"), [("{}", 100.0), ("[]", 0.0)])
def test_what_the_simulated_engine_writes_under_a_schema_is_judged_by_it(
    tmp_path: Path, answer: str, percent: float
) -> None:
    found = simulated_answer(tmp_path, constrained=True, answer=answer)
    [row] = rows(found, "structured")
    assert (row["JSON %"], row["valid %"]) == ((100.0,), (percent,))
    assert ("invalid_answers" in shown(found, "structured")) == (percent < 100)


def test_requests_are_read_once_however_many_tables_ask(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    sent = {"shared_prefix@c1": [request(0, 0, [400], role="first", group="a")]}
    cell = stored.cell("vllm")
    stored.boot(cell, 0, [{"load": "shared_prefix@c1"}], requests=sent, kv_tokens=60_000)
    found = stored.read()
    first = rows(found, "prefix")
    for path in (tmp_path / "restarts" / "requests").glob("*/*.parquet"):
        path.unlink()
    assert rows(found, "prefix") == first
    assert found.unreadable == []


def test_tables_of_other_workloads_read_no_request(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    cell = stored.cell("vllm")
    load = {"load": "random@c64", "output_tokens_per_s": 1.0}
    stored.boot(cell, 0, [load], kv_tokens=60_000)
    for path in (tmp_path / "restarts" / "requests").glob("*/*.parquet"):
        path.write_bytes(b"not to be read")
    assert "Left out" not in report(stored.read())


def at_the_articles_setting(folder: Path, **columns: Any) -> Any:
    stored = Stored(folder)
    settings = {"memory": {"fraction": 0.8}, "max_running": 64, "context_tokens": 4096}
    marks = {name: columns.get(name, False) for name in ("simulated", "rehearsal")}
    cell = stored.cell("sglang", settings=settings, **marks)
    load = {"load": "random@c64", "ttft_p50_s": 4.2, "itl_p99_s": 0.1}
    for boot in range(3):
        usual = {"kv_tokens": 25_282, "version": "0.5.21", **columns}
        stored.boot(cell, boot, [load], **usual)
    return stored


def test_an_articles_figure_stands_beside_ours_with_its_ratio(tmp_path: Path) -> None:
    found = at_the_articles_setting(tmp_path).read()
    by_name = {row["figure"]: row for row in rows(found, "article")}
    row = by_name["sglang at 64: ttft_p50_ms"]
    assert row["article"] == "4000"
    assert row["ours"] == pytest.approx((4200.0, 4200.0, 4200.0))
    assert row["ratio"] == pytest.approx(1.05)
    assert row["set otherwise here"] == "NVIDIA H100"
    assert by_name["sglang: kv_tokens"]["ratio"] == 1.0


@pytest.mark.parametrize("columns", [{"simulated": True}, {"rehearsal": True}, {"gpu_names": []}])
def test_what_no_gpu_measured_is_never_called_a_reproduction(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    text = shown(at_the_articles_setting(tmp_path, **columns).read(), "article")
    assert "Nothing here reproduces the article" in text


def test_a_load_of_other_lengths_has_no_ratio_and_says_why(tmp_path: Path) -> None:
    stored = at_the_articles_setting(tmp_path)
    stored.run.note_file(FILE.replace("input_tokens = 512", "input_tokens = 256"))
    by_name = {row["figure"]: row for row in rows(stored.read(), "article")}
    row = by_name["sglang at 64: ttft_p50_ms"]
    assert pd.isna(row["ratio"])
    assert "input_tokens 256, not 512" in row["set otherwise here"]


def test_a_ttft_says_when_its_streams_ask_more_often_than_the_articles(tmp_path: Path) -> None:
    stored = at_the_articles_setting(tmp_path)
    stored.run.note_file(FILE.replace("requests = 256", "requests = { per_stream = 8 }"))
    by_name = {row["figure"]: row for row in rows(stored.read(), "article")}
    said = by_name["sglang at 64: ttft_p50_ms"]["set otherwise here"]
    assert "8 requests a stream, not 4 (assumed of theirs)" in said
    assert "a stream" not in by_name["sglang at 64: itl_p99_ms"]["set otherwise here"]


def test_boots_of_several_kinds_have_no_ratio_to_the_article(tmp_path: Path) -> None:
    text = the_example(tmp_path)
    [row] = [row for row in rows(text, "article") if row["figure"] == "vllm: kv_tokens"]
    assert row["ours"] == (22_048.0, 26_560.0, 26_560.0)
    assert pd.isna(row["ratio"])


def test_a_cell_that_asks_for_something_else_is_not_the_articles(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    for label, settings in (("vllm", {"weights": "int4"}), ("sglang", {"chunk_tokens": 77})):
        cell = stored.cell(label, settings=settings)
        stored.boot(cell, 0, [{"load": "random@c64", "ttft_p50_s": 1.0}], kv_tokens=60_000)
    assert "No cell of these results asks for a figure" in shown(stored.read(), "article")


def test_the_article_is_shown_only_when_it_is_asked_for(tmp_path: Path) -> None:
    found = at_the_articles_setting(tmp_path).read()
    assert "article" not in report(found)


def test_every_published_figure_has_a_measure_that_is_looked_for(tmp_path: Path) -> None:
    setup, figures = published()
    known = {"output_tokens_per_s", "ttft_p50_ms", "itl_p99_ms", "kv_tokens", "kv_tokens_seen"}
    known |= {"victim_itl_max_ms", "injected_ttft_ms", "ttft_first_ms", "ttft_later_ms"}
    known |= {"ready_first_s", "ready_again_s", "constrained_over_free_ratio"}
    assert {f.measure for f in figures if "_over_" not in f.measure} <= known
    assert all(f.values or f.range for f in figures)
    assert json.dumps(setup["setup"])
