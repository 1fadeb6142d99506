"""Reasons not to believe a figure yet: one catalogue, each with what to do about it. Pure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Severity = Literal["note", "suspect", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One reason for doubt.

    Attributes:
        name: stable name, a key of `ADVICE`.
        severity: `note` informs, `suspect` weakens a figure, `void` takes it out of the tables.
        subject: what it is about: a cell, a boot, a load, a fact.
        sentence: what was seen.
        advice: what to do.
    """

    name: str
    severity: Severity
    subject: str
    sentence: str
    advice: str

    def row(self) -> dict[str, str]:
        """Return it as a stored row."""
        return dataclasses.asdict(self)


ADVICE: Final[dict[str, tuple[Severity, str]]] = {
    "single_boot": ("suspect", "Write boots = 3 or more: a restart is the unit of replication."),
    "simulated": ("note", "It shows mechanisms, not a GPU: run it on real images."),
    "rehearsal": ("note", "It shows that the experiment works: run it without --rehearse."),
    "few_requests": ("note", "Ask for at_least = 100 requests to have a p99."),
    "kv_not_as_asked": ("suspect", "Ask for fewer tokens, or give the server more memory."),
    "overloaded": ("note", "It is a level that a search found too high: see the table capacity."),
    "unjudged": ("suspect", "Give the client a core of its own; the search repeated the probe."),
    "unsearched": ("suspect", "Widen the range of the search, or see the doubts of its probes."),
    "aborted": ("void", "See the boot's cause, and the server's log."),
    "no_tokens": ("void", "See the server's log; a request by hand shows what it answers."),
    "failures": ("void", "See the outcomes in `requests`, and the server's log."),
    "in_flight": ("void", "Give the client a core of its own, or more workers."),
    "off_schedule": ("void", "Give the client a core of its own, or more workers."),
    "all_at_once": ("suspect", "Read throughput from it, not TTFT; or give a finite rate."),
    "late_sends": ("suspect", "Give the client a core of its own, or more workers."),
    "client_error": ("void", "Give the client a core of its own, or more workers."),
    "client_lag": ("note", "Kernel stamps correct it; a core of its own avoids it."),
    "clock_step": ("suspect", "Stop whatever sets the time of day during a load."),
    "unstamped": ("suspect", "Measure plain HTTP on this machine, where the kernel stamps."),
    "miscount": ("suspect", "Compare per-token times, not gaps; see tokens_by_chunks."),
    "input_length": ("suspect", "See input_tokens in `requests`; the server changed the prompt."),
    "published_port": ("suspect", "Run the runner where it reaches the container's own address."),
    "prefix_inflated": ("void", "Flush the cache before the load, or use unique prompts."),
    "not_flushed": ("suspect", "See why the flush failed; prompts differ, so hits should be 0."),
    "outputs_ended_early": ("suspect", "Ask for exact lengths (ignore_eos), or compare lengths."),
    "sources_disagree": ("suspect", "Compare the lines in `facts`; check the version's format."),
    "fact_missing": ("suspect", "The log format may be new: look at the stored log."),
    "page_silent": ("suspect", "Facts of that page are missing: see what kept the server busy."),
    "ready_unsaid": ("note", "Its own warm-up may reach into the first load; give loads a warmup."),
    "unknown_version": ("note", "Formats and flags of this release were not read: check facts."),
    "first_boot_cold": ("note", "Compare cold starts with cold starts only."),
    "block_incomplete": ("note", "Run exec again: it fills the block."),
    "setting_not_observed": ("note", "Nothing the server says shows this setting."),
    "stop_forced": ("note", "See the log's end; raise [timeouts] stop_s if it was still busy."),
    "gpu_shared": ("suspect", "Stop the other process, or write gpu_exclusive = true."),
    "gpu_throttled": ("suspect", "Check cooling and power limits; lock the clocks."),
    "several_kinds": ("suspect", "Pin what differs (memory = { kv_tokens = ... }), or boot more."),
    "two_valued": ("suspect", "Look for what differs between these boots; compare group by group."),
    "unequal_tails": ("suspect", "End loads by requests, not by time, to compare a p99."),
    "drift_over_blocks": ("suspect", "Let the machine settle; look at clocks and other processes."),
    "drift_within_load": (
        "suspect",
        "Warm up longer; look at clocks; of an open loop, ask whether the queue grows.",
    ),
    "warmup_inside": ("note", "Give the load a warmup, so that none of it is in the window."),
    "other_answers": ("suspect", "Read `answer` in `requests`: fast and wrong is no result."),
    "invalid_answers": ("suspect", "Read `answer` in `requests`, and how the server constrains."),
    "preempted": ("suspect", "Give it more KV memory, fewer in flight, or compare what it costs."),
    "not_aligned": ("suspect", "Give both the settings that differ, or read it as one package."),
}
"""Name -> how serious it is, and what to do."""


def of_reason(name: str, severity: Severity, subject: str, sentence: str) -> Doubt:
    """Return a reason of the client's own verdict as a doubt."""
    advice = ADVICE[name][1]
    return Doubt(name=name, severity=severity, subject=subject, sentence=sentence, advice=advice)


def doubt(name: str, subject: str, sentence: str) -> Doubt:
    """Return a doubt of the catalogue about a subject."""
    severity, advice = ADVICE[name]
    return Doubt(name=name, severity=severity, subject=subject, sentence=sentence, advice=advice)


def verdict(doubts: Iterable[Doubt]) -> str:
    """Return `void`, `doubtful` or `ok` for a load with these doubts."""
    severities = {entry.severity for entry in doubts}
    if "void" in severities:
        return "void"
    return "doubtful" if "suspect" in severities else "ok"


def of_load(load: Mapping[str, Any]) -> list[Doubt]:
    """Return the doubts that a load's own row shows.

    Args:
        load: a row of `loads` without verdict and doubts.
    """
    rules = (_inflated, _unflushed, _preempted, _ended_early, _unwarmed)
    return [entry for rule in rules for entry in rule(load)]


def _inflated(load: Mapping[str, Any]) -> Iterable[Doubt]:
    """A load whose hits exceed its construction by over 1 % of prompt tokens is inflated.

    Where nobody knows what its prompts share (texts), nothing is said.
    """
    hits, asked = load.get("cached_tokens"), load.get("input_tokens")
    expected = load.get("expected_hit_tokens")
    if hits is None or expected is None or not asked:
        return
    surplus_ratio = (hits - expected) / asked
    if surplus_ratio > 0.01:
        yield doubt(
            "prefix_inflated",
            load["load"],
            f"{surplus_ratio:.1%} of its prompt tokens came from the prefix cache beyond what its"
            " prompts share by construction",
        )


def _unflushed(load: Mapping[str, Any]) -> Iterable[Doubt]:
    if load.get("flushed") is False:
        yield doubt("not_flushed", load["load"], "the prefix cache was not emptied before it")


def _preempted(load: Mapping[str, Any]) -> Iterable[Doubt]:
    """Requests that were put back are computed again: what is compared is KV memory, not speed."""
    put_back = load.get("preemptions")
    if put_back:
        yield doubt(
            "preempted",
            load["load"],
            f"{put_back:.0f} requests were put back for want of KV memory and computed again",
        )


def _ended_early(load: Mapping[str, Any]) -> Iterable[Doubt]:
    outcomes = json.loads(load.get("outcomes") or "{}")
    other = outcomes.get("wrong_length", 0)
    if other:
        said = f"{other} of {load.get('requests')} answers had another length than asked"
        yield doubt("outputs_ended_early", load["load"], said)


def _unwarmed(load: Mapping[str, Any]) -> Iterable[Doubt]:
    """A load without warm-up holds the server's first answers of its kind in its own window."""
    asked = json.loads(load.get("asked") or "{}")
    if asked.get("warmup_requests") == 0:
        yield doubt("warmup_inside", load["load"], "no request came before its window")
