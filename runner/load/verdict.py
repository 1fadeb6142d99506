"""Whether a load may be believed: pure, by limits that are written down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from runner.load.figures import Figures
from runner.load.proof import Proof

Severity = Literal["note", "suspect", "void"]
Word = Literal["ok", "doubtful", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a load must keep to.

    Attributes:
        failed_ratio: largest share of failed requests.
        held_ratio: smallest share of the asked number in flight, over the steady window.
        off_schedule_ratio: largest deviation of the sends' span from the schedule's.
        error_ratio: largest remaining error of a chunk's time, as a share of the median ITL.
        send_lag_ratio: largest send lag (99 %), as a share of the median TTFT.
        unstamped_ratio: largest share of reads without a kernel stamp.
        miscount_ratio: largest difference between tokens by chunks and by usage.
        silent_ends: how many answers may end by themselves, with a token that usage may count and
            no chunk carries: so many are no miscount.
    """

    failed_ratio: float = 0.01
    held_ratio: float = 0.98
    off_schedule_ratio: float = 0.01
    error_ratio: float = 0.1
    send_lag_ratio: float = 0.1
    unstamped_ratio: float = 0.01
    miscount_ratio: float = 0.01
    silent_ends: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason not to believe a load, as a name, a sentence and how bad it is."""

    name: str
    severity: Severity
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`void` when any reason is void, `doubtful` when any is suspect, else `ok`."""

    word: Word
    reasons: tuple[Reason, ...]


def verdict(
    figures: Figures, proof: Proof, limits: Limits | None = None, aborted: str | None = None
) -> Verdict:
    """Judge one load."""
    limits = limits or Limits()
    found = [*_outcome(figures, limits, aborted), *_sends(figures, proof, limits)]
    found += [*_times(figures, proof, limits), *_counts(proof, limits), *_path(proof)]
    severities = {reason.severity for reason in found}
    word: Word = "doubtful" if "suspect" in severities else "ok"
    return Verdict(word="void" if "void" in severities else word, reasons=tuple(found))


def _outcome(figures: Figures, limits: Limits, aborted: str | None) -> Iterator[Reason]:
    if aborted:
        yield _void("aborted", f"The load was ended early: {aborted}")
    if not figures.output_tokens:
        yield _void("no_tokens", "Not one output token came.")
    failed = figures.requests - figures.ok
    if failed > limits.failed_ratio * figures.requests:
        classes = ", ".join(f"{n} {k}" for k, n in sorted(figures.outcomes.items()) if k != "ok")
        yield _void(
            "failures",
            f"{failed} of {figures.requests} requests failed ({classes}); the limit is "
            f"{limits.failed_ratio:.1%}.",
        )
    elif failed:
        yield _note("failures", f"{failed} of {figures.requests} requests failed.")


def _sends(figures: Figures, proof: Proof, limits: Limits) -> Iterator[Reason]:
    held = proof.held_in_flight_ratio
    if held is not None and held < limits.held_ratio:
        yield _void(
            "in_flight",
            f"{held:.1%} of the {proof.asked_in_flight} requests asked were in flight; under "
            f"{limits.held_ratio:.0%} it is another load.",
        )
    off = proof.off_schedule_ratio
    if off is not None and off > limits.off_schedule_ratio:
        sentence = (
            f"Requests left at {proof.sent_per_s:.4g}/s where the schedule drew "
            f"{proof.drawn_per_s:.4g}/s: {off:.1%} off, over {limits.off_schedule_ratio:.0%}."
        )
        if proof.max_in_flight is None:
            yield _void("off_schedule", sentence)
        else:
            cap = f" At most {proof.max_in_flight} were let in flight; see the client queue."
            yield _suspect("off_schedule", sentence + cap)
    if proof.asked_in_flight is None:
        if proof.drawn_per_s is None and figures.requests > 1:
            yield _suspect("all_at_once", "All requests were due at once: TTFT contains the wait.")
        elif _over(proof.send_lag_p99_s, limits.send_lag_ratio, figures.ttft.p50_s):
            yield _suspect(
                "late_sends",
                f"1 % of the requests left {_ms(proof.send_lag_p99_s)} late or more; TTFT, counted "
                "from the intended time, contains it (see the client queue).",
            )


def _times(figures: Figures, proof: Proof, limits: Limits) -> Iterator[Reason]:
    itl_s = figures.itl.p50_s or figures.ttft.p50_s
    if _over(proof.remaining_error_p99_s, limits.error_ratio, itl_s):
        yield _void(
            "client_error",
            f"The time of 1 % of the chunks is uncertain by {_ms(proof.remaining_error_p99_s)} or "
            f"more, over {limits.error_ratio:.0%} of the median ITL ({_ms(itl_s)}): the client was "
            "the bottleneck. Give it more cores or workers.",
        )
    elif _over(proof.client_lag_p99_s, limits.error_ratio, itl_s):
        yield _note(
            "client_lag",
            f"The client read 1 % of the chunks {_ms(proof.client_lag_p99_s)} late or more; the "
            "kernel's stamps correct for it.",
        )
    if proof.clock_steps:
        yield _suspect("clock_step", "The time of day was set during the load: stamps jumped.")
    unstamped = proof.unstamped_ratio
    if unstamped is not None and unstamped > limits.unstamped_ratio:
        yield _suspect("unstamped", f"{unstamped:.1%} of the reads have no kernel stamp.")


def _counts(proof: Proof, limits: Limits) -> Iterator[Reason]:
    by_chunks, by_usage = proof.tokens_by_chunks, proof.tokens_by_usage
    is_end = 0 <= by_usage - by_chunks <= limits.silent_ends
    if not is_end and abs(by_chunks - by_usage) > limits.miscount_ratio * by_usage:
        yield _suspect(
            "miscount",
            f"Chunks held {by_chunks} output tokens, usage says {by_usage}: tokens per chunk, and "
            "with them the token gaps, are not known.",
        )
    if proof.input_mismatches:
        yield _suspect(
            "input_length",
            f"{proof.input_mismatches} prompts were of another length than asked.",
        )


def _path(proof: Proof) -> Iterator[Reason]:
    if proof.way == "published":
        yield _suspect(
            "published_port",
            "The load went through a published port, whose proxy adds "
            "milliseconds to every time: its boot's floor was measured through one.",
        )


def _over(value_s: float | None, ratio: float, of_s: float | None) -> bool:
    return value_s is not None and of_s is not None and value_s > ratio * of_s


def _ms(value_s: float | None) -> str:
    return "an unknown time" if value_s is None else f"{value_s * 1e3:.3g} ms"


def _void(name: str, sentence: str) -> Reason:
    return Reason(name=name, severity="void", sentence=sentence)


def _suspect(name: str, sentence: str) -> Reason:
    return Reason(name=name, severity="suspect", sentence=sentence)


def _note(name: str, sentence: str) -> Reason:
    return Reason(name=name, severity="note", sentence=sentence)
