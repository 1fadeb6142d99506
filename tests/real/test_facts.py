"""What a real engine says of itself, held against what it was asked and against itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.boots.ready import wait_until_ready

if TYPE_CHECKING:
    from tests.real.booting import Booted

pytestmark = [pytest.mark.docker, pytest.mark.real]

ASKED = {
    "kv_tokens": 20480,
    "chunk_tokens": 256,
    "context_tokens": 2048,
    "max_running": 16,
    "prefix_cache": True,
}
BESIDE_THE_LOG = {
    "vllm": {
        "kv_tokens": {"metrics"},
        "chunk_tokens": {"server_info"},
        "context_tokens": {"server_info", "models"},
        "max_running": {"server_info"},
        "prefix_cache": {"server_info", "metrics"},
    },
    "sglang": {
        "kv_tokens": {"server_info", "metrics"},
        "chunk_tokens": {"server_info"},
        "context_tokens": {"server_info", "models", "metrics"},
        "max_running": {"server_info"},
        "prefix_cache": {"server_info"},
    },
}
"""Where each release says it: a source that falls silent is as wrong as one that disagrees."""


@pytest.mark.parametrize("name", ASKED)
def test_log_metrics_and_info_page_agree_on_what_was_asked(booted: Booted, name: str) -> None:
    said = booted.facts(name)
    assert said.keys() == {"log"} | BESIDE_THE_LOG[booted.cell.engine.name][name]
    assert {fact.value for fact in said.values()} == {ASKED[name]}


def test_the_release_is_the_one_that_the_image_bears(booted: Booted) -> None:
    assert booted.cell.version is not None
    release = ".".join(map(str, booted.cell.version))
    versions = {str(fact.value).partition("+")[0] for fact in booted.facts("version").values()}
    assert versions == {release}


def test_every_expected_fact_is_stated_and_the_log_says_ready(booted: Booted) -> None:
    reading = booted.logged()
    assert (reading.engine, reading.outcome) == (booted.cell.engine.name, "ready")
    for name in booted.cell.engine.expected:
        assert booted.facts(name), name


def test_a_server_that_serves_another_model_is_not_the_one_we_wait_for(booted: Booted) -> None:
    ready = wait_until_ready(
        booted.server, engine=booted.cell.engine, model="another", timeout_s=30
    )
    assert ready.cause == "wrong_model"
    assert booted.cell.served_name in ready.message
