"""Doubts that follow from what a server says of itself."""

from __future__ import annotations

from collections.abc import Mapping

import engines
from engines import Fact, Value
from runner.boots.drift import doubts_about, doubts_about_pages, told_by
from runner.boots.pages import Stated

VLLM = engines.get("vllm")
COMPLETE: dict[str, Value] = {
    "version": "0.32.0",
    "kv_tokens": 100,
    "context_tokens": 4096,
    "chunk_tokens": 2048,
    "max_running": 64,
}


def facts(values: Mapping[str, Value], source: str = "log", rank: str = "") -> list[Fact]:
    return [
        Fact(name=name, value=value, source=source, rank=rank) for name, value in values.items()
    ]


def doubts(*lists: list[Fact], ready: bool = True) -> dict[str, str]:
    stated = [fact for each in lists for fact in each]
    return {entry.name: entry.sentence for entry in doubts_about(VLLM, stated, ready=ready)}


def test_a_complete_boot_of_a_known_release_raises_no_doubt() -> None:
    assert doubts(facts(COMPLETE)) == {}


def test_a_release_beyond_those_read_is_named() -> None:
    said = doubts(facts(COMPLETE | {"version": "0.40.1"}))
    assert "0.40.1 is newer than 0.33.0" in said["unknown_version"]
    said = doubts(facts(COMPLETE | {"version": "0.5.0"}))
    assert "older than 0.6.6" in said["unknown_version"]


def test_a_patch_of_the_newest_release_is_known() -> None:
    assert doubts(facts(COMPLETE | {"version": "0.33.0.post2"})) == {}


def test_a_fact_that_a_ready_server_did_not_state_is_named_with_its_release() -> None:
    stated = {name: value for name, value in COMPLETE.items() if name != "kv_tokens"}
    said = doubts(facts(stated))["fact_missing"]
    assert "0.32.0" in said
    assert "kv_tokens" in said


def test_a_server_that_never_became_ready_need_not_have_stated_anything() -> None:
    assert doubts([], ready=False) == {}


def test_two_sources_that_disagree_are_quoted() -> None:
    said = doubts(facts(COMPLETE), facts({"kv_tokens": 90}, "metrics"))
    assert said == {"sources_disagree": "kv_tokens is 100 by log, but 90 by metrics."}


def test_rounding_and_spelling_are_no_disagreement() -> None:
    log: dict[str, Value] = {
        "kv_bytes": round(24.05 * 2**30),
        "dtype": "torch.bfloat16",
        "version": "0.32.0",
    }
    page: dict[str, Value] = {
        "kv_bytes": round(24.0479 * 2**30),
        "dtype": "bfloat16",
        "version": "0.32.0+cpu",
    }
    assert doubts(facts(COMPLETE | log), facts(page, "server_info")) == {}


def test_auto_is_no_statement_to_disagree_with() -> None:
    log, page = {"kv_dtype": "torch.bfloat16"}, {"kv_dtype": "auto"}
    assert doubts(facts(COMPLETE | log), facts(page, "server_info")) == {}


def test_a_checkpoint_that_is_quantized_is_used_as_it_is_stored() -> None:
    log, page = facts(COMPLETE | {"weights": "fp8"}), facts({"weights": "as_stored"}, "server_info")
    assert doubts(log, page) == {}


def test_what_a_load_showed_is_not_compared_with_what_was_said() -> None:
    seen = facts({"chunk_tokens": 512}, "load")
    assert doubts(facts(COMPLETE), seen) == {}


def test_statements_of_different_ranks_are_not_compared() -> None:
    one = facts({"weights_bytes": 2**30}, "log", "TP0")
    other = facts({"weights_bytes": 2**31}, "server_info", "DP1")
    assert doubts(facts(COMPLETE), one, other) == {}


SILENT = Stated(facts=(), silent={"server_info": "/server_info: no answer within 15 s"})
ANSWERED = Stated(
    facts=(
        Fact(name="max_running", value=64, source="server_info"),
        Fact(name="context_tokens", value=4096, source="models"),
        Fact(name="step_over_tokens", value=256, source="load"),
    ),
    silent={},
)


def test_a_page_that_was_silent_before_the_load_is_read_after_it() -> None:
    told = told_by(SILENT, ANSWERED)
    assert {fact.name for fact in told} == {"max_running", "step_over_tokens"}
    assert doubts_about_pages(SILENT, ANSWERED) == []


def test_a_page_that_stays_silent_is_a_doubt_with_its_reason() -> None:
    for after in (SILENT, None):
        (found,) = doubts_about_pages(SILENT, after)
        assert (found.name, found.subject) == ("page_silent", "server_info")
        assert "no answer within 15 s" in found.sentence


def test_a_page_that_answered_before_the_load_may_be_silent_after_it() -> None:
    assert doubts_about_pages(ANSWERED, SILENT) == []


def test_what_a_load_showed_is_missed_where_its_page_is_silent_afterwards() -> None:
    after = Stated(facts=(), silent={"metrics": "/metrics: status 500"})
    assert [found.subject for found in doubts_about_pages(ANSWERED, after)] == ["metrics"]
