"""A plan: blocks of boots in a seeded order, its identity, its warnings, and its text."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.experiment import Experiment
from runner.experiment.read import read
from runner.plan import Plan, expand
from runner.plan.estimate import estimate
from runner.plan.text import planned, spelled_time

ROOT = Path(__file__).parent.parent
GOLDEN = Path(__file__).parent / "golden"

LOAD: dict[str, Any] = {
    "workload": "random",
    "input_tokens": 8,
    "output_tokens": 8,
    "concurrency": 1,
    "requests": 100,
}
ENGINES: dict[str, Any] = {
    "vllm": {"image": "vllm/vllm-openai:v0.31.0"},
    "sglang": {"image": "lmsysorg/sglang:v0.5.21"},
}


def plan(**tables: Any) -> Plan:
    raw = {
        "question": "?",
        "boots": 2,
        "common": {"model": "org/model", "max_running": 8},
        "engines": ENGINES,
        "loads": [LOAD],
    }
    return expand(Experiment.model_validate({**raw, **tables}))


def order(found: Plan) -> list[tuple[int, str]]:
    return [(boot.block, boot.cell.cell_id) for boot in found.boots]


SEEDS = st.integers(0, 99)
AXIS = st.lists(st.integers(8, 99), min_size=1, max_size=4, unique=True)


@given(SEEDS, st.integers(1, 5), AXIS)
def test_each_block_is_one_boot_of_every_cell(seed: int, boots: int, axis: list[int]) -> None:
    found = plan(seed=seed, boots=boots, matrix={"max_running": axis})
    cells = {cell.cell_id for cell in found.cells}
    for block in range(boots):
        booted = [boot.cell.cell_id for boot in found.boots if boot.block == block]
        assert Counter(booted) == Counter(cells)
    assert [boot.order for boot in found.boots] == list(range(len(found.boots)))
    assert [boot.block for boot in found.boots] == sorted(boot.block for boot in found.boots)


@given(SEEDS, st.integers(1, 4), st.integers(1, 4), AXIS)
def test_more_boots_add_blocks_and_keep_the_earlier_ones(
    seed: int, boots: int, more: int, axis: list[int]
) -> None:
    before = order(plan(seed=seed, boots=boots, matrix={"max_running": axis}))
    after = order(plan(seed=seed, boots=boots + more, matrix={"max_running": axis}))
    assert after[: len(before)] == before


@given(SEEDS, st.permutations([16, 32, 48, 64]))
def test_the_order_of_the_file_is_no_part_of_the_order_of_boots(seed: int, axis: list[int]) -> None:
    written = order(plan(seed=seed, matrix={"max_running": axis}))
    assert written == order(plan(seed=seed, matrix={"max_running": sorted(axis)}))


def test_seeds_and_blocks_draw_different_orders() -> None:
    axis = {"max_running": [8, 16, 24, 32]}
    drawn = {
        tuple(cell for block, cell in order(plan(seed=seed, boots=4, matrix=axis)) if block == b)
        for seed in range(4)
        for b in range(4)
    }
    assert len(drawn) > 12


UNCHANGED: list[dict[str, Any]] = [
    {"question": "another"},
    {"boots": 9},
    {"timeouts": {"ready_s": 5}},
    {"limits": {"failed_requests_ratio": 0.5}},
    {"rehearse": {"boots": 1}},
    {"engines": dict(reversed(ENGINES.items()))},
    {"loads": [{**LOAD, "concurrency": [1], "requests": {"per_stream": 100}}]},
    {"common": {"model": "org/model", "max_running": 8, "expect": {"outcome": "failed"}}},
]
CHANGED: list[dict[str, Any]] = [
    {"seed": 2},
    {"matrix": {"max_running": [8, 16]}},
    {"engines": {"vllm": ENGINES["vllm"]}},
    {"common": {"model": "org/other", "max_running": 8}},
    {"loads": [{**LOAD, "input_tokens": 9}]},
    {"loads": [{**LOAD, "concurrency": [1, 2]}]},
    {"loads": [{**LOAD, "requests": 101}]},
    {"loads": [LOAD, {**LOAD, "name": "again"}]},
    {"client": {"cpus": "1"}},
    {"cache": {"compile": "none"}},
]


@pytest.mark.parametrize("tables", UNCHANGED, ids=str)
def test_what_does_not_change_the_answer_does_not_change_the_content_id(
    tables: dict[str, Any],
) -> None:
    assert plan(**tables).content_id == plan().content_id


@pytest.mark.parametrize("tables", CHANGED, ids=str)
def test_what_changes_the_answer_changes_the_content_id(tables: dict[str, Any]) -> None:
    assert plan(**tables).content_id != plan().content_id


def test_a_rehearsal_is_never_the_same_content(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "quickstart.toml").read_text(encoding="utf-8")
    file = tmp_path / "q.toml"
    file.write_text(text + "\n[rehearse]\nboots = 2\n", encoding="utf-8")
    ids = {expand(read(file, rehearse=rehearse)).content_id for rehearse in (True, False)}
    assert len(ids) == 2


def test_what_an_engine_cannot_express_is_listed_with_its_reason_and_never_booted() -> None:
    found = plan(matrix={"chunk_tokens": [4, 512]})
    assert [entry.cell.label for entry in found.inapplicable] == ["vllm chunk_tokens=4"]
    assert "must not be under max_running (8)" in found.inapplicable[0].reasons[0]
    assert [cell.label for cell in found.cells] == [
        "vllm chunk_tokens=512",
        "sglang chunk_tokens=4",
        "sglang chunk_tokens=512",
    ]
    assert found.inapplicable[0].cell.cell_id not in {cell for _, cell in order(found)}


def test_an_attached_server_is_booted_once() -> None:
    engines = {**ENGINES, "vllm": {"launcher": "attach", "url": "http://127.0.0.1:8000"}}
    found = plan(boots=3, engines=engines)
    assert Counter(boot.cell.name for boot in found.boots) == {"vllm": 1, "sglang": 3}
    assert any("never restarted" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("tables", "warning"),
    [
        ({"boots": 1}, "one boot of each cell: every figure will be labelled single"),
        (
            {"loads": [{**LOAD, "requests": 99}]},
            "random@c1: 99 requests are too few for a p99; the tables will show the maximum",
        ),
        (
            {"loads": [{**LOAD, "concurrency": 80}]},
            "random@c80: 100 requests are less than two for each stream",
        ),
        (
            {"loads": [{**LOAD, "concurrency": 9}]},
            "random@c9: more in flight than max_running = 8 of vllm, sglang",
        ),
        (
            {"common": {"model": "m", "context_tokens": 15}},
            "random@c1: 8 + 8 tokens do not fit context_tokens = 15 of vllm, sglang",
        ),
        (
            {
                "common": {"model": "m", "context_tokens": 40},
                "loads": [{**LOAD, "input_tokens": {"uniform": [8, 33]}}],
            },
            "random@c1: 33 + 8 tokens do not fit context_tokens = 40 of vllm, sglang",
        ),
        (
            {"exclude": [{"engine": "vllm", "max_running": 7}], "matrix": {"max_running": [8]}},
            "exclude[0] matches no cell",
        ),
        (
            {"engines": {"vllm": {"image": "i:v0.31.0", "chunk_tokens": 4}}},
            "no cell is left to boot",
        ),
        (
            {"engines": {"sglang": {"image": "i:v0.5.21", "memory": {"fraction": 0.8}}}},
            "sglang: SGLang's fraction holds weights and KV only",
        ),
    ],
)
def test_a_doubtful_plan_warns(tables: dict[str, Any], warning: str) -> None:
    assert any(said.startswith(warning) for said in plan(**tables).warnings)


def test_a_sound_plan_does_not_warn() -> None:
    assert plan(loads=[{**LOAD, "concurrency": 8}]).warnings == ()


def test_a_note_about_many_cells_is_said_once() -> None:
    axis = {"chunk_tokens": [256, 512, 1024]}
    notes = [said for said in plan(matrix=axis).warnings if "counts the decodes" in said]
    assert notes == ["vllm (3 cells): vLLM's chunk_tokens also counts the decodes of a step."]


def test_the_estimate_grows_with_boots_and_counts_priming_boots_once() -> None:
    few, many = (estimate(plan(boots=boots)) for boots in (2, 4))
    assert many.load_s == pytest.approx(2 * few.load_s)
    assert many.startup_s == pytest.approx(2 * few.startup_s)
    assert (few.priming_boots, many.priming_boots) == (2, 2)
    assert estimate(plan(cache={"compile": "none"})).priming_s == 0


def test_a_window_of_time_takes_its_time() -> None:
    timed = {**LOAD, "requests": None, "duration_s": 600, "warmup": 0}
    assert estimate(plan(boots=1, loads=[timed])).load_s == pytest.approx(2 * 600)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "1 h 30 min"), (400_000, "4 d 15 h")],
)
def test_times_are_spelled_for_people(seconds: float, text: str) -> None:
    assert spelled_time(seconds) == text


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand at the root of the project, in a home of a known name."""
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(ROOT)


def golden(name: str, text: str) -> None:
    """Compare a text with a stored one; RUNNER_GOLDEN=update stores it instead."""
    path = GOLDEN / name
    if os.environ.get("RUNNER_GOLDEN") == "update":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("file", "rehearse", "name"),
    [
        ("experiments/quickstart.toml", False, "plan-quickstart.txt"),
        ("experiments/fp8.toml", False, "plan-fp8.txt"),
        ("experiments/fp8.toml", True, "plan-fp8-rehearsed.txt"),
        ("experiments/cpu.toml", False, "plan-cpu.txt"),
        ("experiments/capacity.toml", False, "plan-capacity.txt"),
        ("experiments/kv_matched.toml", False, "plan-kv-matched.txt"),
        ("tests/golden/inapplicable.toml", False, "plan-inapplicable.txt"),
    ],
)
def test_a_plan_is_printed_whole(file: str, rehearse: bool, name: str) -> None:
    text = planned(expand(read(Path(file), rehearse=rehearse)), {})
    golden(name, text.replace(sys.executable, "python3"))


def test_a_plan_names_secrets_and_never_shows_their_values() -> None:
    common = {"model": "org/model", "secrets": ["HF_TOKEN"]}
    engines = {
        "vllm": ENGINES["vllm"],
        "sglang": {"launcher": "process", "env": {"NOTE": "my hf_canary value"}},
    }
    text = planned(plan(common=common, engines=engines), {"HF_TOKEN": "hf_canary"})
    assert "hf_canary" not in text
    assert "-e HF_TOKEN vllm/vllm-openai" in text
    assert 'HF_TOKEN="$HF_TOKEN" python3 -m sglang' in text
    assert "my <HF_TOKEN> value" in text


def test_the_models_folder_follows_hf_home() -> None:
    text = planned(plan(), {"HF_HOME": "/big/hf"})
    assert "source=/big/hf,target=/root/.cache/huggingface" in text


def test_ten_thousand_boots_are_printed_one_line_each() -> None:
    found = plan(boots=5000)
    text = planned(found, {})
    boots = text.split("Boots in the order")[1].split("\n\n")[0].splitlines()[2:]
    assert len(boots) == 10_000
    assert text.count("docker run") == 2
