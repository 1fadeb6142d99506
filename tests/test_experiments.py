"""The experiment files that come along: each asks a question, plans, and can be rehearsed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from runner.experiment.read import read
from runner.plan import expand
from runner.plan.estimate import estimate, is_primed

FOLDER = Path(__file__).parent.parent / "experiments"
GPU_FILES = (
    "throughput_512",
    "throughput_2048",
    "restarts",
    "prefix_cache",
    "large_model",
    "structured",
    "interference",
    "chunking",
    "startup",
    "open_loop",
    "capacity",
    "kv_matched",
    "hicache",
)
OFFICIAL = {"vllm/vllm-openai:v0.31.0", "lmsysorg/sglang:v0.5.21"}
ON_CPU = {"local/vllm-cpu:0.32.0", "local/sglang-cpu:0.5.23"}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.toml"


@pytest.mark.parametrize("name", GPU_FILES)
def test_a_file_opens_with_its_question(name: str) -> None:
    first = path_of(name).read_text().splitlines()[0]
    assert first.startswith('question = "')
    assert first.endswith('?"')


@pytest.mark.parametrize("name", GPU_FILES)
def test_every_cell_can_be_expressed_on_the_official_images(name: str) -> None:
    plan = expand(read(path_of(name)))
    assert plan.cells
    assert plan.inapplicable == ()
    assert {cell.keys.image for cell in plan.cells} <= OFFICIAL
    assert {cell.gpus for cell in plan.cells} == {1}
    assert len(plan.boots) == len(plan.cells) * plan.experiment.boots
    assert plan.experiment.boots >= 3


@pytest.mark.parametrize("name", GPU_FILES)
def test_its_rehearsal_needs_no_gpu_and_keeps_the_loads_in_kind(name: str) -> None:
    plan, rehearsal = expand(read(path_of(name))), expand(read(path_of(name), rehearse=True))
    assert rehearsal.inapplicable == ()
    assert {cell.keys.image for cell in rehearsal.cells} <= ON_CPU
    assert {cell.gpus for cell in rehearsal.cells} == {0}
    assert {cell.model for cell in rehearsal.cells} == {"/var/tmp/real-engines/tiny"}
    kinds = {(load.keys.name, load.workload, load.level_kind) for load in plan.loads}
    assert {(o.keys.name, o.workload, o.level_kind) for o in rehearsal.loads} == kinds
    assert [cell.label for cell in rehearsal.cells] == [cell.label for cell in plan.cells]


@pytest.mark.parametrize("name", GPU_FILES)
def test_no_sampled_length_outgrows_the_context(name: str) -> None:
    for rehearse in (False, True):
        plan = expand(read(path_of(name), rehearse=rehearse))
        context = min(cell.keys.context_tokens or 0 for cell in plan.cells)
        for load in plan.loads:
            spec = load.spec.model_dump()
            pairs = [
                (spec.get("input_tokens"), spec.get("output_tokens")),
                (spec.get("victim_input_tokens"), spec.get("victim_output_tokens")),
                (spec.get("injected_input_tokens"), spec.get("injected_output_tokens")),
            ]
            if "prefix_tokens" in spec:
                whole = spec["prefix_tokens"] + spec["suffix_tokens"]
                pairs.append((whole, spec["output_tokens"]))
            assert all((a or 0) + (b or 0) <= context for a, b in pairs)


def test_chunks_are_compared_on_both_engines_and_mixed_or_not() -> None:
    plan = expand(read(path_of("interference")))
    settings = {(c.name, c.keys.chunk_tokens, c.keys.mixed_chunk) for c in plan.cells}
    assert settings == {
        ("sglang", 2048, False),
        ("sglang", 2048, True),
        ("sglang", 512, False),
        ("sglang", 512, True),
        ("vllm", 2048, None),
        ("vllm", 512, None),
    }


def test_the_victim_alone_is_the_interference_load_without_what_is_injected() -> None:
    loads = {load.load: load for load in expand(read(path_of("interference"))).loads}
    both, alone = loads["interference@r0.5"], loads["alone@r0.5"]
    assert both.spec == alone.spec
    assert (alone.requests, both.requests) == (alone.spec.victims, alone.spec.victims + 3)


def test_a_rehearsed_host_cache_is_expected_to_die_of_host_memory() -> None:
    cells = {cell.name: cell for cell in expand(read(path_of("hicache"), rehearse=True)).cells}
    expect = cells["hicache"].keys.expect
    assert expect is not None
    assert (expect.outcome, expect.cause) == ("failed", "hicache_host_memory")
    assert cells["sglang"].keys.expect is None


def test_starts_with_and_without_a_kept_cache_are_cells_of_one_file() -> None:
    plan = expand(read(path_of("startup")))
    kept = {cell.label: is_primed(cell, plan) for cell in plan.cells}
    assert kept == {
        "vllm compile=none": False,
        "vllm compile=per_cell": True,
        "sglang compile=none": False,
        "sglang compile=per_cell": True,
    }
    assert estimate(plan).priming_boots == 2


def test_every_file_of_the_folder_is_read_without_a_complaint() -> None:
    for path in sorted(FOLDER.glob("*.toml")):
        if "experiments" not in tomllib.loads(path.read_text()):
            assert expand(read(path)).cells


EVERY_QUESTION = sorted(
    path.stem
    for path in FOLDER.glob("*.toml")
    if "experiments" not in tomllib.loads(path.read_text())
)


@pytest.mark.parametrize("name", EVERY_QUESTION)
def test_every_file_opens_with_its_question_and_runs_without_a_gpu(name: str) -> None:
    text = path_of(name).read_text()
    raw = tomllib.loads(text)
    assert text.startswith('question = "')
    assert raw["question"].endswith("?")
    plan = expand(read(path_of(name), rehearse="rehearse" in raw))
    assert plan.cells
    assert {cell.gpus for cell in plan.cells} == {0}
