"""The loads of a predicted boot, as rows of `loads` and `requests`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engines.sim.offline import Timeline as Simulated
from engines.sim.predict import Boot
from runner import doubts
from runner.boots import probe
from runner.boots.asks import Draw, asks_of, path_of
from runner.boots.boot import Bench
from runner.boots.measure import Measured, asked_columns, request_row
from runner.errors import ExperimentError
from runner.experiment.levels import Load
from runner.load import Timeline
from runner.load.census import census
from runner.load.evidence import Windows, windows_of
from runner.load.figures import Figures, figures
from runner.load.proof import Proof
from runner.load.verdict import Limits, verdict
from runner.predict.cut import Went, cut_short
from runner.stored import rows

_ORIGIN_NS: Final = 1_000_000_000
"""Where an engine's clock begins: a time of 0 would mean that nothing happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """A boot that is only simulated, in the place of a server and the client that measures it."""

    bench: Bench
    boot: Boot

    def measure(self, load: Load, draw: Draw, spool: Path) -> Measured | None:
        """Simulate one load; None where the engine would die under it."""
        del spool
        flushed = self.boot.flush() if load.keys.flush else None
        before = self.boot.counters
        went, windows = self._gone_through(load, draw)
        if not self.boot.alive:
            return None
        timelines, opened_ns = went.timelines, windows.opened_ns
        found = figures(
            timelines, opened_ns=opened_ns, closed_ns=windows.closed_ns, steady=windows.steady
        )
        row = {
            **asked_columns(load, draw, self.bench.build.vocabulary, found.requests),
            "since_ready_s": (opened_ns - _ORIGIN_NS) / 1e9,
            "flushed": flushed,
            **rows.flat(found),
            **{name: total - before[name] for name, total in self.boot.counters.items()},
        }
        row |= _judged(load, found, row, went)
        keys = {"load": load.load, "repeat": draw.repeat}
        requests = (request_row(one, opened_ns, keys) for one in timelines)
        return Measured(row=row, requests=requests, metrics=[], aborted=None)

    def died(self) -> str | None:
        """Return how it would end, None while it lives."""
        return None if self.boot.alive else "the simulated engine would end here"

    def await_end(self) -> None:
        """Wait for nothing: an end is known at once."""

    def await_idle(self) -> None:
        """Wait for nothing: what was too much has been simulated to its end."""

    def _gone_through(self, load: Load, draw: Draw) -> tuple[Went, Windows]:
        """Simulate a load's requests; a probe of too high a level is cut as a server's would be.

        Raises:
            ExperimentError: the client's own queue, which `max_in_flight` makes, is not simulated.
        """
        if load.keys.max_in_flight is not None:
            raise ExperimentError(
                f"{load.load}: max_in_flight cannot be predicted, for nothing queues in a client"
                " that is not there; leave it out, or measure"
            )
        cell, vocabulary = self.bench.planned.cell, self.bench.build.vocabulary
        window, warmup = (
            asks_of(load, draw, vocabulary, cell.engine, cell.served_name, purpose)
            for purpose in ("window", "warmup")
        )
        began_ns = _ns(self.boot.now_s)
        opened_s, lines = self.boot.load(
            path_of(load, cell.engine),
            window,
            warmup=tuple(warmup),
            concurrency=load.in_flight,
            duration_s=load.duration_s,
        )
        went = cut_short(load, [_timeline(line, load) for line in lines], began_ns)
        found = census(went.timelines)
        return went, windows_of(found, load.in_flight, load.duration_s, _ns(opened_s))


def _judged(load: Load, found: Figures, row: dict[str, Any], went: Went) -> dict[str, Any]:
    """Return what is doubtful about a load in itself, and of a probe whether it met its SLO.

    No client measured it, so nobody's errors stand in the way.
    """
    drawn_per_s = None if load.in_flight or load.level == math.inf else load.level
    nobody = Proof(asked_in_flight=load.in_flight, drawn_per_s=drawn_per_s)
    judged = [*doubts.of_load(row), *_reasons(load, found, nobody)]
    met: dict[str, Any] = {}
    if load.probe is not None:
        tried = probe.Tried(
            figures=found,
            timelines=lambda: went.timelines,
            doubts=judged,
            limits=Limits(),
            proof=nobody,
            overload=went.overload,
        )
        met["met"], judged = probe.judged(load, tried)
    return {**met, "doubts": [one.row() for one in judged], "verdict": doubts.verdict(judged)}


def _reasons(load: Load, found: Figures, proof: Proof) -> Sequence[doubts.Doubt]:
    return [
        doubts.of_reason(one.name, one.severity, load.load, one.sentence)
        for one in verdict(found, proof).reasons
    ]


def _timeline(line: Simulated, load: Load) -> Timeline:
    """Return a simulated request as one that a client would have timed."""
    ask, tokens_ns = line.ask, tuple(map(_ns, line.token_s))
    timed = load.in_flight is None and (not line.warmup or load.probe is not None)
    refused = bool(ask.refused)
    return Timeline(
        request=line.number,
        group=ask.group,
        role=ask.role,
        warmup=line.warmup,
        intended_ns=_ns(line.sent_s) if timed else None,
        sent_ns=_ns(line.sent_s),
        first_ns=tokens_ns[0] if tokens_ns else None,
        last_ns=tokens_ns[-1] if tokens_ns else None,
        ended_ns=_ns(line.ended_s),
        chunk_ns=tokens_ns,
        chunk_tokens=(1,) * len(tokens_ns),
        input_tokens=None if refused else ask.prompt_tokens,
        output_tokens=len(tokens_ns) or None,
        cached_tokens=None if refused else line.cached_tokens,
        outcome="status" if refused else "ok",
        detail=ask.refused[:300],
        answer=ask.answer,
    )


def _ns(simulated_s: float) -> int:
    return _ORIGIN_NS + round(simulated_s * 1e9)
