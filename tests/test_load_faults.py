"""Every way a server can fail, in one load against the golden server, each in its own class."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runner.load import Timeline
from runner.load.drive import Driven, drive
from runner.load.figures import figures
from runner.load.golden import Plan
from runner.load.golden.process import golden_ask, served
from runner.load.verdict import verdict

PLAN = Plan(ttft_s=0.02, itl_s=0.002)
TOKENS = 20

FAULTS: dict[str, tuple[Mapping[str, object], str, str, int]] = {
    "none": ({}, "ok", "", 20),
    "stall": ({"stall_at": 10, "stall_s": 0.3}, "ok", "", 20),
    "four tokens a chunk": ({"chunk_tokens": 4}, "ok", "", 20),
    "three events a write": ({"write_events": 3}, "ok", "", 20),
    "split at every byte": ({"split_bytes": 1}, "ok", "", 20),
    "split at every third byte": ({"split_bytes": 3}, "ok", "", 20),
    "CRLF": ({"crlf": True}, "ok", "", 20),
    "comments": ({"comments": True}, "ok", "", 20),
    "slow head": ({"head_delay_s": 0.2}, "ok", "", 20),
    "100-continue": ({"interim": True}, "ok", "", 20),
    "connection: close": ({"keep_alive": False}, "ok", "", 20),
    "body until close": ({"chunked": False}, "ok", "", 20),
    "usage at the end": ({"usage": "final"}, "ok", "", 20),
    "in-band error": ({"in_band_at": 5}, "in_band", "golden in-band error", 20),
    "abort": ({"abort_at": 7}, "truncated", "broke off after 7 tokens", 7),
    "abort before the first token": ({"abort_at": 0}, "truncated", "after 0 tokens", 0),
    "abort of a body until close": (
        {"abort_at": 7, "chunked": False},
        "truncated",
        "no [DONE] after 7 tokens",
        7,
    ),
    "reset": ({"reset_at": 7}, "reset", "reset", 7),
    "reset before the first token": ({"reset_at": 0}, "reset", "reset", 0),
    "silence": ({"silent_at": 0}, "timeout", "no answer within 2 s", 0),
    "silence in the middle": ({"silent_at": 5}, "timeout", "no answer within 2 s", 5),
    "no [DONE]": ({"done": False}, "truncated", "no [DONE]", 20),
    "no finish reason": ({"finish": False}, "truncated", "no finish reason", 20),
    "no usage": ({"usage": "none"}, "no_usage", "20 chunks carried tokens", 20),
    "wrong usage": ({"usage_off": 3}, "wrong_length", "23 tokens of 20 asked", 20),
    "too few tokens": ({"output_tokens": 12}, "wrong_length", "12 tokens of 20 asked", 12),
    "not JSON": ({"garbage": "{oops"}, "malformed", "not JSON", 20),
    "429": ({"status": 429}, "status", "429: ", 0),
    "503": ({"status": 503}, "status", "golden 503", 0),
    "503 and close": ({"status": 503, "keep_alive": False}, "status", "golden 503", 0),
    "redirect": ({"status": 307}, "status", "redirects are not followed: /elsewhere", 0),
}


@pytest.fixture(scope="module", params=[False, True], ids=["completions", "chat"])
def load(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Driven:
    folder: Path = tmp_path_factory.mktemp("faults")
    path = "/v1/chat/completions" if request.param else "/v1/completions"
    asks = [
        golden_ask(
            number, output_tokens=TOKENS, changes=changes, group=name, chat=bool(request.param)
        )
        for number, (name, (changes, *_)) in enumerate(FAULTS.items())
    ]
    with served(PLAN, folder / "truth") as golden:
        return drive(
            target=golden.target(path),
            asks=asks,
            in_flight=8,
            request_timeout_s=2.0,
            spool=folder / "spool",
        )


@pytest.fixture(scope="module")
def timelines(load: Driven) -> dict[str, Timeline]:
    return {one.group: one for one in load.timelines()}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_counted_in_its_class(fault: str, timelines: dict[str, Timeline]) -> None:
    _, outcome, detail, tokens = FAULTS[fault]
    one = timelines[fault]
    assert one.outcome == outcome
    assert detail in one.detail
    assert sum(one.chunk_tokens) == tokens


def test_no_request_is_lost(timelines: dict[str, Timeline]) -> None:
    assert set(timelines) == set(FAULTS)


def test_what_was_received_before_a_failure_is_kept(timelines: dict[str, Timeline]) -> None:
    one = timelines["abort"]
    assert one.first_ns is not None
    assert one.sent_ns < one.first_ns < one.ended_ns
    assert len(one.chunk_ns) == 7


def test_the_raw_bytes_of_failures_are_kept_and_of_no_others(load: Driven) -> None:
    kept = load.shards[0].with_suffix(".failed").read_bytes()
    assert b'"outcome": "malformed"' in kept
    assert b"{oops" in kept
    assert b'"outcome": "ok"' not in kept
    failures = sum(outcome != "ok" for _, outcome, _, _ in FAULTS.values())
    assert kept.count(b'{"request": ') == failures - 1  # of the silent one there is nothing


def test_a_stall_is_one_long_gap(timelines: dict[str, Timeline]) -> None:
    gaps = [b - a for a, b in itertools.pairwise(timelines["stall"].chunk_ns)]
    assert max(gaps) == gaps[9]
    assert gaps[9] > 0.15e9


def test_tokens_of_a_chunk_are_kept_with_it(timelines: dict[str, Timeline]) -> None:
    assert timelines["four tokens a chunk"].chunk_tokens == (4, 4, 4, 4, 4)


def test_events_of_one_write_share_one_time(timelines: dict[str, Timeline]) -> None:
    assert len(set(timelines["three events a write"].chunk_ns)) <= 7


def test_the_server_s_own_counts_are_kept(timelines: dict[str, Timeline]) -> None:
    one = timelines["none"]
    assert (one.input_tokens, one.output_tokens, one.cached_tokens) == (32, 20, 0)


def test_all_times_are_the_kernel_s(timelines: dict[str, Timeline]) -> None:
    assert timelines["none"].stamp == "kernel"


def test_failures_are_out_of_the_figures_and_void_the_load(load: Driven) -> None:
    found = figures(
        load.timelines(), opened_ns=load.opened_ns, closed_ns=load.closed_ns, steady=load.steady
    )
    expected = [outcome for _, outcome, _, _ in FAULTS.values()]
    assert found.outcomes == {outcome: expected.count(outcome) for outcome in set(expected)}
    assert found.ok == found.ttft.count == expected.count("ok")
    judged = verdict(found, load.proof)
    assert judged.word == "void"
    assert "failures" in {reason.name for reason in judged.reasons}


def test_a_parser_whose_parent_died_before_it_was_up_ends(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as dead:
        dead.wait()
    paths = [str(tmp_path / name) for name in ("raw", "timelines", "report")]
    words = [sys.executable, "-m", "runner.load.parse", *paths, str(dead.pid)]
    assert subprocess.run(words, timeout=60, check=False).returncode == 0
    assert not (tmp_path / "report").exists()


def test_a_server_that_refuses_is_a_refusal_for_each_request(tmp_path: Path) -> None:
    with served(PLAN, tmp_path / "truth") as golden:
        target = golden.target()
    asks = [golden_ask(number, output_tokens=5) for number in range(4)]
    load = drive(
        target=target, asks=asks, in_flight=2, request_timeout_s=1.0, spool=tmp_path / "spool"
    )
    outcomes = [one.outcome for one in load.timelines()]
    assert outcomes == ["refused"] * 4
    assert load.proof.held_in_flight_ratio == 0
