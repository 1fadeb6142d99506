"""A search for capacity through the front door, and the table that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runner import tables
from runner.boots.search import Answer, Probe, Range, step
from runner.cli import main
from runner.stored.frames import Results, results
from runner.tables import Centre
from tests.stored import Stored

FILE = """
question = "How much does it bear?"
boots = 1

[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8

[engines.vllm]
simulate = { gpu = "laptop-8gb", startup_s = 0.2, speed = 4 }
memory = { kv_tokens = 8192 }

[[loads]]
workload = "random"
input_tokens = 256
output_tokens = 16
requests = 60

[loads.search]
rate_per_s = { low = 30, high = 480 }
slo = { goodput_ratio = 0.8, e2e_s = 0.4 }
settle_s = 0.3
within_ratio = 0.4

[capacity]
peak_per_s = 1000
"""
WITHIN = Range(low=30, high=480, within_ratio=0.4)
LOOKED = Range(low=2, high=256, within_ratio=0.1)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Results]:
    """Run the search once; return what was printed and what was stored."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "bears.toml").write_text(FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runner.world.floor", lambda **client: None)
        arguments = ["exec", str(folder / "bears.toml"), "--results", str(folder / "results")]
        done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    return done.output, results(folder / "results" / "bears")


def test_every_probe_is_a_load_of_its_own_marked_as_one(searched: tuple[str, Results]) -> None:
    loads = searched[1].loads
    assert list(loads.probe) == list(range(len(loads)))
    assert set(loads.search) == {"random@search"}
    assert all(
        name == f"random@r{level:.4g}#{n}"
        for n, (name, level) in enumerate(zip(loads.load, loads.level, strict=True))
    )
    assert loads.level.between(WITHIN.low, WITHIN.high).all()


def test_the_answer_is_what_its_stored_probes_say(searched: tuple[str, Results]) -> None:
    told = searched[1].loads
    assert bool(searched[1].boots.simulated.all())
    probes = [
        Probe(level=level, met=bool(met))
        for level, met in zip(told.level, told.met, strict=True)
        if met is not None
    ]
    [row] = searched[1].capacity.to_dict("records")
    assert row["probes"] == len(told)
    assert row["slo"] == "80 % of requests with <= 0.4 s in all"
    answer = step(probes, WITHIN)
    if row["why"] != "unknown":
        assert isinstance(answer, Answer)
        assert answer.why == row["why"]
        level = None if row["level"] != row["level"] else row["level"]
        assert level == answer.level


def test_arrivals_go_on_before_a_probes_window_opens(searched: tuple[str, Results]) -> None:
    requests = searched[1].requests
    before = requests[requests.warmup]
    assert (before.intended_ns <= 0).all()
    assert len(before) >= 9 * len(searched[1].loads)


def test_probes_are_in_no_table_of_levels_and_the_search_is_in_its_own(
    searched: tuple[str, Results],
) -> None:
    assert "Capacity: the highest level" in searched[0]
    assert "Throughput" not in searched[0]


OFFLINE = """
question = "How much would it bear?"
boots = 2

[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8

[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
memory = { kv_tokens = 8192 }

[engines.sglang]
image = "lmsysorg/sglang:v0.5.21"
memory = { kv_tokens = 8192 }

[[loads]]
name = "most"
workload = "random"
input_tokens = 256
output_tokens = 16
concurrency = 64
requests = 256

[[loads]]
workload = "random"
input_tokens = 256
output_tokens = 16
requests = 200

[loads.search]
rate_per_s = { low = 2, high = 256 }
slo = { ttft_p99_s = 1 }
settle_s = 2
within_ratio = 0.1
"""


@pytest.fixture(scope="module")
def foretold(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Results]:
    """Search without a server; return what was printed and what was stored."""
    folder = tmp_path_factory.mktemp("foretold")
    (folder / "would.toml").write_text(OFFLINE)
    arguments = ["exec", str(folder / "would.toml"), "--simulate", "--results", str(folder / "r")]
    done = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output, results(folder / "r" / "would")


def test_a_search_without_a_server_brackets_what_the_simulated_engine_bears(
    foretold: tuple[str, Results],
) -> None:
    found = foretold[1]
    most = found.loads[found.loads.load == "most@c64"].set_index(["cell_id", "boot"])
    assert len(found.capacity) == len(most) == 4
    for row in found.capacity.to_dict("records"):
        assert row["why"] == "found"
        assert row["missed_level"] <= 1.1 * row["level"] * (1 + 1e-9)
        # one saturated engine serves so many; arrivals by chance need some room under that
        served_per_s = most.steady_requests_per_s[(row["cell_id"], row["boot"])]
        assert 0.7 * served_per_s < row["level"] < 1.1 * served_per_s


def test_probes_without_a_server_are_marked_simulated_and_tell_what_they_met(
    foretold: tuple[str, Results],
) -> None:
    printed, found = foretold
    assert "SIMULATED" in printed
    assert "Capacity: the highest level" in printed
    assert bool(found.boots.simulated.all())
    probes = found.loads[found.loads.search == "random@search"]
    for (cell_id, boot), own in probes.groupby(["cell_id", "boot"]):
        told = zip(own.level, own.met, strict=True)
        answer = step([Probe(level=level, met=bool(met)) for level, met in told], LOOKED)
        [row] = found.capacity[
            (found.capacity.cell_id == cell_id) & (found.capacity.boot == boot)
        ].to_dict("records")
        assert isinstance(answer, Answer)
        assert (answer.level, answer.missed) == (row["level"], row["missed_level"])
        assert list(own.probe) == list(range(row["probes"]))


def test_a_probe_without_a_server_opens_upon_arrivals_and_is_cut_when_its_queue_grows(
    foretold: tuple[str, Results],
) -> None:
    found = foretold[1]
    overloaded = [
        load
        for load in found.loads.to_dict("records")
        if any(entry["name"] == "overloaded" for entry in load["doubts"])
    ]
    assert overloaded
    for load in overloaded:
        assert not load["met"]
        own = found.requests[
            (found.requests.cell_id == load["cell_id"])
            & (found.requests.boot == load["boot"])
            & (found.requests.load == load["load"])
        ]
        before = own[own.warmup]
        assert (before.intended_ns <= 0).all()
        assert len(before) >= load["level"]
        assert set(own.outcome) == {"ok", "cancelled"}
        cut_ns = own[own.outcome == "cancelled"].ended_ns.unique()
        assert len(cut_ns) == 1
        assert (own.sent_ns <= cut_ns[0]).all()


def test_a_plan_predicts_a_capacity(tmp_path: Path) -> None:
    path = tmp_path / "would.toml"
    path.write_text(OFFLINE.replace("boots = 2", "boots = 1"))
    done = CliRunner().invoke(main, ["plan", str(path), "--predict"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "Capacity: the highest level" in done.output


def capacity(why: str = "found", **columns: Any) -> dict[str, Any]:
    usual = {"load": "random@search", "repeat": 0, "level_kind": "rate_per_s", "probes": 9}
    return {**usual, "why": why, "slo": "TTFT p99 <= 2 s", **columns}


def written(folder: Path, found: list[dict[str, Any]]) -> Results:
    stored = Stored(folder, file=FILE)
    cell = stored.cell("vllm")
    for boot, row in enumerate(found):
        stored.boot(cell, boot, capacity=[row])
    read: Results = stored.read()
    return read


def row_of(found: Results) -> dict[str, Any]:
    built = tables.get("capacity").build(found)
    assert built is not None
    return {str(key): value for key, value in built.frame.iloc[0].items()}


def test_boots_become_an_interval_and_servers_for_the_peak(tmp_path: Path) -> None:
    levels = [(100.0, 104.0), (110.0, 115.0), (105.0, 110.0)]
    row = row_of(
        written(
            tmp_path,
            [capacity(level=low, missed_level=high, requests_per_s=low) for low, high in levels],
        )
    )
    assert row["capacity"] == (100.0, 110.0, 105.0)
    between = row["mean [95 %] capacity"]
    assert isinstance(between, Centre)
    assert between.low < 100
    assert between.high > 115
    # 1000 / (104.9 x 0.8) = 11.9; the interval's ends give 13.5 and 8.9
    assert (row["servers"].middle, row["servers"].low, row["servers"].high) == (12, 11, 14)


def test_boots_that_agree_are_uncertain_by_their_bracket(tmp_path: Path) -> None:
    row = row_of(
        written(
            tmp_path,
            [capacity(level=100.0, missed_level=105.0, requests_per_s=100.0) for _ in range(3)],
        )
    )
    between = row["mean [95 %] capacity"]
    assert (round(between.low, 6), round(between.high, 6)) == (100, 105)


@pytest.mark.parametrize(
    ("why", "level", "missed", "said"),
    [
        ("below_range", None, 30.0, "even the lowest level of the search missed"),
        ("above_range", 480.0, None, "even the highest level of the search met"),
        ("unknown", 60.0, None, "a probe could not tell"),
    ],
)
def test_a_boot_without_an_answer_takes_the_interval_away_and_says_why(
    tmp_path: Path, why: str, level: float | None, missed: float | None, said: str
) -> None:
    good = capacity(level=100.0, missed_level=105.0, requests_per_s=100.0)
    lacking = capacity(why, level=level, missed_level=missed, requests_per_s=level)
    found = written(tmp_path, [good, lacking, good])
    row = row_of(found)
    assert row["mean [95 %] capacity"] is None
    assert row["servers"] is None
    built = tables.get("capacity").build(found)
    assert built is not None
    assert said in built.doubts["unsearched"][0]


def test_streams_are_turned_into_requests_per_second_for_the_peak(tmp_path: Path) -> None:
    found = [
        capacity(level_kind="concurrency", level=32.0, missed_level=33.0, requests_per_s=50.0)
        for _ in range(2)
    ]
    # 1000 / (50 x 0.8)
    assert row_of(written(tmp_path, found))["servers"].high == 25


def test_one_boot_is_labelled_single(tmp_path: Path) -> None:
    found = written(tmp_path, [capacity(level=100.0, missed_level=105.0, requests_per_s=100.0)])
    built = tables.get("capacity").build(found)
    assert built is not None
    assert "single_boot" in built.doubts


@pytest.mark.parametrize(
    ("verdicts", "why", "void"),
    [
        (("void", "ok"), "found", 0),  # what a probe left open, its repeat answered
        (("ok", "void"), "unknown", 1),
        (("doubtful", "ok"), "above_range", 0),
    ],
)
def test_a_probe_counts_as_void_only_through_a_search_without_an_answer(
    tmp_path: Path, verdicts: tuple[str, ...], why: str, void: int
) -> None:
    stored = Stored(tmp_path, file=FILE)
    cell = stored.cell("vllm")
    probes = [
        {"load": f"random@r30#{n}", "search": "random@search", "probe": n, "verdict": verdict}
        for n, verdict in enumerate(verdicts)
    ]
    stored.boot(cell, 0, probes, capacity=[capacity(why, level=30.0)])
    other = {"load": "random@c8", "verdict": "void"}
    stored.boot(cell, 1, [other], capacity=[capacity(level=30.0)])
    first, second = stored.run.boots()
    assert stored.run.void_loads([first]) == void
    assert stored.run.void_loads([first, second]) == void + 1
