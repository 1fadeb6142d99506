"""What is known of one boot, and the rows it becomes. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from engines import Fact, Value
from engines.causes import CATALOGUE as CAUSES
from engines.facts import CATALOGUE as FACTS
from engines.reading import Reading
from runner.boots.gpu import GpuSample
from runner.doubts import Doubt
from runner.experiment import Expect
from runner.launchers import Exit

KEY_FACTS: Final = (
    "version",
    "kv_tokens",
    "kv_bytes",
    "weights_bytes",
    "chunk_tokens",
    "max_running",
    "context_tokens",
    "prefix_cache",
    "mixed_chunk",
)
"""Facts that are columns of `boots`."""

_TRUST: Final = ("log", "server_info", "metrics", "models", "version", "load")
"""Which source fills a column of `boots` when several speak; a disagreement is a doubt."""
_TRUST_OF_SIZES: Final = ("server_info", "metrics", "log", "models", "version", "load")
"""The same for sizes, which logs round to hundredths of a GiB: 0.00 for a tiny model's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a boot is not done."""

    phase: str
    cause: str
    message: str
    outcome: str = "failed"

    @classmethod
    def interrupted(cls, phase: str) -> Failure:
        """Return the end of a boot that was interrupted in a phase."""
        return cls(phase=phase, cause="interrupted", message="the run ended", outcome="interrupted")

    def because(self, cause: str, phase: str | None = None) -> Failure:
        """Return it with the cause, and the phase, that the evidence names."""
        return replace(self, cause=cause, phase=phase or self.phase)


@dataclass(kw_only=True)
class Life:
    """What is known of a boot while it lives.

    Attributes:
        phase: the phase it is in.
        seconds: time of each phase that ended, by its column in `boots`.
        facts: what the server said of itself on its pages and under load.
        doubts: reasons not to believe it yet.
        failure: why it is not done; None while nothing failed.
        exit: how the server ended by itself; None where we stopped it.
        reading: what its log says, up to the moment before the planned stop.
        way: how the load reached it.
        samples: how its GPUs did under load.
        metrics: rows of `metrics`.
        held: what still holds GPU memory after its end.
        capacities: what its searches found, as rows of `capacity` without the boot's keys.
    """

    phase: str = "create"
    seconds: dict[str, float] = field(default_factory=dict)
    facts: list[Fact] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    failure: Failure | None = None
    exit: Exit | None = None
    reading: Reading | None = None
    way: str | None = None
    samples: tuple[GpuSample, ...] = ()
    metrics: list[dict[str, Any]] = field(default_factory=list)
    held: str | None = None
    capacities: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def timing(self, column: str) -> Iterator[None]:
        """Note how long the block takes, also when it fails."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[column] = time.monotonic() - began

    @property
    def all_facts(self) -> list[Fact]:
        """Return what the log and the pages say, the log first."""
        return [*(self.reading.facts if self.reading else ()), *self.facts]


def key_facts(facts: Iterable[Fact]) -> dict[str, Value]:
    """Return the value of each key fact that is known, by the most trusted source.

    A fact that several ranks state is left out unless they agree or one of them speaks for all.
    """
    found: dict[str, Value] = {}
    by_trust = sorted(facts, key=_rank)
    for fact in by_trust:
        if fact.name in KEY_FACTS and not fact.rank:
            found.setdefault(fact.name, fact.value)
    for fact in by_trust:
        if fact.name in KEY_FACTS:
            found.setdefault(fact.name, fact.value)
    return found


def _rank(fact: Fact) -> int:
    trust = _TRUST_OF_SIZES if fact.name.endswith("_bytes") else _TRUST
    return trust.index(fact.source)


def row_of(life: Life, expect: Expect | None, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the columns of `boots` that a life fills.

    Args:
        life: what happened.
        expect: the outcome that is the experiment's answer, where it names one.
        clean: takes secrets out of a text.
    """
    failure, reading = life.failure, life.reading
    outcome = failure.outcome if failure else "done"
    cause = failure.cause if failure else None
    evidence = reading.evidence if reading and failure and failure.outcome == "failed" else ()
    return {
        "outcome": outcome,
        "expected": _is_expected(outcome, cause, expect),
        "phase": failure.phase if failure else None,
        "cause": cause,
        "origin": CAUSES[cause].origin if cause else None,
        "message": clean(failure.message)[:1000] if failure else None,
        "evidence": [clean(line)[:1000] for line in evidence],
        "exit_code": life.exit.code if life.exit else None,
        "oom_killed": life.exit.oom_killed if life.exit else None,
        "way": life.way,
        "doubts": [entry.row() for entry in life.doubts],
        **life.seconds,
        **key_facts(life.all_facts),
    }


def skipped(cause: str, message: str) -> dict[str, Any]:
    """Return the columns of `boots` for a boot that another one's failure made pointless."""
    return {
        "outcome": "skipped",
        "phase": None,
        "expected": True,
        "cause": cause,
        "origin": CAUSES[cause].origin,
        "message": message,
        "evidence": [],
        "doubts": [],
    }


def fact_rows(
    facts: Iterable[Fact],
    keys: Mapping[str, Any],
    at_s: Callable[[int], float | None],
    clean: Callable[[str], str],
) -> Iterator[dict[str, Any]]:
    """Yield a row of `facts` for each fact."""
    for fact in facts:
        is_number = isinstance(fact.value, (int, float))
        yield {
            **keys,
            "name": fact.name,
            "value": clean(str(fact.value)),
            "number": float(fact.value) if is_number else None,
            "unit": FACTS[fact.name].unit,
            "rank": fact.rank,
            "source": fact.source,
            "line": fact.line,
            "at_s": at_s(fact.line) if fact.line is not None else None,
            "text": clean(fact.text)[:300],
        }


def _is_expected(outcome: str, cause: str | None, expect: Expect | None) -> bool:
    if expect is None:
        return outcome == "done"
    return outcome == expect.outcome and expect.cause in (None, cause)
