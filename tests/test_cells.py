"""Cells: keys merged from common, section and point; identities of what is asked; labels."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.experiment import Experiment
from runner.plan.cells import Cell, cells_of
from runner.plan.launch import Circumstances, launch_of

LOAD = {
    "workload": "random",
    "input_tokens": 8,
    "output_tokens": 8,
    "concurrency": 1,
    "requests": 100,
}


def experiment(**tables: Any) -> Experiment:
    raw = {
        "question": "?",
        "boots": 1,
        "common": {"model": "org/model"},
        "engines": {"vllm": {"image": "vllm/vllm-openai:v0.31.0"}},
        "loads": [LOAD],
    }
    return Experiment.model_validate({**raw, **tables})


def only(**tables: Any) -> Cell:
    (cell,) = cells_of(experiment(**tables))
    return cell


def vllm(**keys: Any) -> dict[str, Any]:
    return {"vllm": {"image": "vllm/vllm-openai:v0.31.0", **keys}}


def test_a_point_lies_over_the_section_and_the_section_over_common() -> None:
    found = cells_of(
        experiment(
            common={"model": "org/model", "max_running": 8, "dtype": "auto", "context_tokens": 64},
            engines=vllm(max_running=16, dtype="bfloat16"),
            matrix={"max_running": [32, 48]},
        )
    )
    keys = [(c.keys.context_tokens, c.keys.dtype, c.keys.max_running) for c in found]
    assert keys == [(64, "bfloat16", 32), (64, "bfloat16", 48)]


def test_flags_env_and_mounts_are_merged_key_by_key() -> None:
    cell = only(
        common={"model": "m", "env": {"A": "1", "B": "1"}},
        engines=vllm(env={"B": "2"}, flags={"seed": 1, "x": True}),
        matrix={"flags": [{"seed": 2}]},
    )
    assert (cell.keys.env, cell.keys.flags) == ({"A": "1", "B": "2"}, {"seed": 2, "x": True})


def test_a_raw_flag_is_bare_or_has_a_value_several_words_or_json() -> None:
    flags = {"a": True, "b": 1, "c": 0.5, "d": "x y", "e": [1, "z"], "f": {"level": 3}}
    argv = only(engines=vllm(flags=flags)).arguments("h", 1).argv
    sent = ("--a", "--b", "1", "--c", "0.5", "--d", "x y", "--e", "1", "z", "--f", '{"level": 3}')
    assert argv[-len(sent) :] == sent


def test_a_point_replaces_memory_whole() -> None:
    cell = only(engines=vllm(memory={"fraction": 0.8}), matrix={"memory": [{"kv_tokens": 99}]})
    assert cell.settings["memory"] == {"kv_tokens": 99}


IDENTICAL: list[dict[str, Any]] = [
    {"question": "another"},
    {"boots": 9},
    {"seed": 7},
    {"timeouts": {"ready_s": 5}},
    {"limits": {"failed_requests_ratio": 0.5}},
    {"common": {"model": "org/model", "expect": {"outcome": "failed"}}},
    {"matrix": {"model": ["org/model"]}},
    {"engines": vllm(flags={}, env={})},
]
DIFFERENT: list[dict[str, Any]] = [
    {"common": {"model": "org/other"}},
    {"common": {"model": "org/model@abc"}},
    {"common": {"model": "org/model", "gpus": 2}},
    {"common": {"model": "org/model", "secrets": ["HF_TOKEN"]}},
    {"engines": {"vllm": {"image": "vllm/vllm-openai:v0.30.0"}}},
    {"engines": vllm(flags={"enforce-eager": True})},
    {"engines": vllm(env={"A": "1"})},
    {"engines": vllm(prefix_cache=False)},
    {"engines": vllm(simulate={})},
    {"engines": vllm(version="0.30.0")},
]


@pytest.mark.parametrize("tables", IDENTICAL, ids=str)
def test_what_does_not_change_the_server_does_not_change_the_cell_id(
    tables: dict[str, Any],
) -> None:
    assert only(**tables).cell_id == only().cell_id


@pytest.mark.parametrize("tables", DIFFERENT, ids=str)
def test_whatever_is_asked_of_the_server_changes_the_cell_id(tables: dict[str, Any]) -> None:
    assert only(**tables).cell_id != only().cell_id


def test_a_cell_id_stays_what_it_was() -> None:
    """Nights of a year are matched by it: a change here makes all stored nights strangers."""
    assert only().cell_id == "6f1e54b547e0"


def test_a_setting_that_is_asked_as_false_is_not_one_that_is_not_asked() -> None:
    ids = {only(engines=vllm(**keys)).cell_id for keys in ({}, {"graphs": False}, {"graphs": True})}
    assert len(ids) == 3


def test_two_points_that_ask_the_same_are_one_cell() -> None:
    tables = {"engines": vllm(chunk_tokens=512), "include": [{"chunk_tokens": 512}]}
    assert len(cells_of(experiment(**tables))) == 1


def test_a_label_names_the_engine_and_what_varies_among_its_cells() -> None:
    found = cells_of(
        experiment(
            engines={**vllm(), "sglang": {"image": "lmsysorg/sglang:v0.5.21"}},
            matrix={"prefix_cache": [True, False], "dtype": ["auto"]},
            exclude=[{"engine": "sglang", "prefix_cache": False}],
            include=[{"engine": "vllm", "memory": {"kv_tokens": 99}, "dtype": "auto"}],
        )
    )
    assert [cell.label for cell in found] == [
        "vllm prefix_cache=on",
        "vllm prefix_cache=off",
        "sglang",
        "vllm memory=kv_tokens:99",
    ]


@given(
    st.dictionaries(
        st.sampled_from(["chunk_tokens", "max_running", "context_tokens", "block_tokens"]),
        st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True),
        max_size=3,
    )
)
def test_labels_tell_all_cells_apart(axes: dict[str, list[int]]) -> None:
    found = cells_of(experiment(matrix=axes))
    assert len({cell.label for cell in found}) == len({cell.cell_id for cell in found})


def test_two_releases_of_one_engine_are_two_sections() -> None:
    found = cells_of(
        experiment(
            engines={
                "old": {"engine": "vllm", "image": "vllm/vllm-openai:v0.10.2"},
                "new": {"engine": "vllm", "image": "vllm/vllm-openai:v0.31.0"},
            }
        )
    )
    assert [(c.name, c.engine.name, c.version) for c in found] == [
        ("old", "vllm", (0, 10, 2)),
        ("new", "vllm", (0, 31, 0)),
    ]


@pytest.mark.parametrize(
    ("keys", "launcher"),
    [
        ({"image": "i:1"}, "docker"),
        ({"simulate": {}}, "process"),
        ({"simulate": {}, "image": "i:1"}, "docker"),
        ({"launcher": "process"}, "process"),
        ({"launcher": "attach", "url": "http://h:1"}, "attach"),
    ],
)
def test_a_server_is_a_container_unless_said_or_simulated(
    keys: dict[str, Any], launcher: str
) -> None:
    assert only(engines={"vllm": keys}).launcher == launcher


@pytest.mark.parametrize(
    ("keys", "gpus"),
    [
        ({}, 1),
        ({"tensor_parallel": 2, "data_parallel": 2}, 4),
        ({"gpus": 0}, 0),
        ({"gpus": ["GPU-a", "GPU-b"]}, 2),
        ({"gpus": ["GPU-a"], "simulate": {}}, 0),
        ({"simulate": {}}, 0),
    ],
)
def test_gpus_are_one_for_each_parallel_part_unless_said(keys: dict[str, Any], gpus: int) -> None:
    assert only(engines=vllm(**keys)).gpus == gpus


@pytest.mark.parametrize(
    ("keys", "handed"),
    [
        ({"gpus": ["GPU-a"]}, ("GPU-a",)),
        ({"gpus": ["GPU-a"], "simulate": {}}, 0),
        ({"gpus": 1, "simulate": {}}, 0),
    ],
)
def test_a_simulated_engine_is_handed_no_gpu_of_its_list(keys: dict[str, Any], handed: Any) -> None:
    cell = only(engines=vllm(image="a/b:v0.31.0", launcher="docker", **keys))
    assert launch_of(cell, Circumstances(port=8000)).gpus == handed


def test_a_local_model_is_mounted_read_only_and_served_under_its_folders_name() -> None:
    cell = only(common={"model": "/data/models/tiny"})
    launch = launch_of(cell, Circumstances(port=8000))
    (mount,) = launch.mounts
    assert (str(mount.source), mount.target, mount.read_only) == (
        "/data/models/tiny",
        "/models/tiny",
        True,
    )
    assert cell.served_name == "tiny"
    assert "/models/tiny" in launch.argv


def test_a_revision_is_no_part_of_the_name_but_is_asked() -> None:
    cell = only(common={"model": "org/model@abc123"})
    argv = cell.arguments("h", 1).argv
    assert cell.model == "org/model"
    assert argv[argv.index("--revision") + 1] == "abc123"


def test_secrets_are_named_in_a_launch_and_never_valued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    cell = only(common={"model": "org/model", "secrets": ["HF_TOKEN"]})
    launch = launch_of(cell, Circumstances(port=8000))
    assert launch.secrets == ("HF_TOKEN",)
    assert "hf_canary" not in repr(launch)
