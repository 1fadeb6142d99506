"""A load is judged by limits that are written down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.load.evidence import remaining_error_s
from runner.load.figures import Figures
from runner.load.lags import Lags
from runner.load.proof import Proof
from runner.load.spread import Quantiles
from runner.load.verdict import Limits, verdict

FIGURES = Figures(
    requests=1000,
    ok=1000,
    outcomes={"ok": 1000},
    output_tokens=128_000,
    ttft=Quantiles(count=1000, p50_s=0.1),
    itl=Quantiles(count=127_000, p50_s=0.01),
)
PROOF = Proof(
    asked_in_flight=64,
    held_in_flight_ratio=0.999,
    remaining_error_p99_s=1e-6,
    client_lag_p99_s=1e-4,
    unstamped_ratio=0.001,
    tokens_by_chunks=128_000,
    tokens_by_usage=128_000,
)
OPEN = replace(
    PROOF,
    asked_in_flight=None,
    held_in_flight_ratio=None,
    drawn_per_s=400.0,
    sent_per_s=400.1,
    off_schedule_ratio=0.00025,
    send_lag_p99_s=1e-4,
)


@pytest.mark.parametrize("proof", [PROOF, OPEN], ids=["closed", "open"])
def test_a_clean_load_is_believed(proof: Proof) -> None:
    judged = verdict(FIGURES, proof)
    assert (judged.word, judged.reasons) == ("ok", ())


CASES: dict[str, tuple[Figures, Proof, str, str]] = {
    "too few in flight": (
        FIGURES,
        replace(PROOF, held_in_flight_ratio=0.979),
        "void",
        "in_flight",
    ),
    "sends off the schedule": (FIGURES, replace(OPEN, off_schedule_ratio=0.011), "void",
                               "off_schedule"),
    "sends held back by a cap": (
        FIGURES,
        replace(OPEN, off_schedule_ratio=0.5, max_in_flight=8),
        "doubtful",
        "off_schedule",
    ),
    "client too slow": (FIGURES, replace(PROOF, remaining_error_p99_s=0.0011), "void",
                        "client_error"),
    "no token": (replace(FIGURES, output_tokens=0), PROOF, "void", "no_tokens"),
    "too many failures": (
        replace(FIGURES, ok=980, outcomes={"ok": 980, "reset": 20}),
        PROOF,
        "void",
        "failures",
    ),
    "few failures": (
        replace(FIGURES, ok=999, outcomes={"ok": 999, "reset": 1}),
        PROOF,
        "ok",
        "failures",
    ),
    "raw lag": (FIGURES, replace(PROOF, client_lag_p99_s=0.005), "ok", "client_lag"),
    "late sends": (FIGURES, replace(OPEN, send_lag_p99_s=0.02), "doubtful", "late_sends"),
    "all at once": (
        FIGURES,
        replace(OPEN, drawn_per_s=None, off_schedule_ratio=None),
        "doubtful",
        "all_at_once",
    ),
    "clock set": (FIGURES, replace(PROOF, clock_steps=1), "doubtful", "clock_step"),
    "no stamps": (FIGURES, replace(PROOF, unstamped_ratio=1.0), "doubtful", "unstamped"),
    "hidden tokens": (FIGURES, replace(PROOF, tokens_by_chunks=64_000), "doubtful", "miscount"),
    "other prompts": (FIGURES, replace(PROOF, input_mismatches=3), "doubtful", "input_length"),
    "published port": (FIGURES, replace(PROOF, way="published"), "doubtful", "published_port"),
}  # fmt: skip


@pytest.mark.parametrize(("found", "proof", "word", "name"), CASES.values(), ids=CASES)
def test_each_defect_has_its_name_and_its_weight(
    found: Figures, proof: Proof, word: str, name: str
) -> None:
    judged = verdict(found, proof)
    assert judged.word == word
    assert [reason.name for reason in judged.reasons] == [name]


def test_an_aborted_load_is_void_and_says_why() -> None:
    judged = verdict(FIGURES, PROOF, aborted="the server exited with code 137")
    assert judged.word == "void"
    assert "code 137" in judged.reasons[0].sentence


def test_limits_can_be_set() -> None:
    failed = replace(FIGURES, ok=900, outcomes={"ok": 900, "status": 100})
    assert verdict(failed, PROOF, Limits(failed_ratio=0.2)).word == "ok"


def test_the_failures_are_named_by_class() -> None:
    failed = replace(FIGURES, ok=900, outcomes={"ok": 900, "status": 60, "reset": 40})
    assert "40 reset, 60 status" in verdict(failed, PROOF).reasons[0].sentence


def lags(*durations_s: float) -> Lags:
    found = Lags()
    found.add(round(duration_s * 1e9) for duration_s in durations_s)
    return found


def test_chunks_with_their_own_kernel_stamp_have_the_clock_s_error_only() -> None:
    error_s = remaining_error_s(0.99, 995, lags(*[0.5] * 5), lags(0.1), 1e-7)
    assert error_s == 1e-7


def test_chunks_that_shared_a_read_are_uncertain_by_the_span_they_came_in() -> None:
    error_s = remaining_error_s(0.99, 900, lags(*[0.5] * 100), lags(*[0.1] * 100), 1e-7)
    assert error_s == pytest.approx(0.6, rel=0.01)


def test_a_load_without_chunks_has_no_remaining_error() -> None:
    assert remaining_error_s(0.99, 0, Lags(), Lags(), 0) is None


def test_the_end_token_of_a_chat_that_no_chunk_carries_is_no_miscount() -> None:
    chats = Limits(silent_ends=FIGURES.ok)
    for by_chunks, found in ((PROOF.tokens_by_usage - FIGURES.ok, []), (1, ["miscount"])):
        proof = replace(PROOF, tokens_by_chunks=by_chunks)
        assert [reason.name for reason in verdict(FIGURES, proof, chats).reasons] == found
    one_each = replace(PROOF, tokens_by_chunks=PROOF.tokens_by_usage - FIGURES.ok)
    few = replace(one_each, tokens_by_usage=2 * FIGURES.ok, tokens_by_chunks=FIGURES.ok)
    assert [reason.name for reason in verdict(FIGURES, few).reasons] == ["miscount"]
    assert verdict(FIGURES, few, chats).reasons == ()
