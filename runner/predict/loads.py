"""The loads of a predicted boot, as rows of `loads` and `requests`."""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

from engines.sim.offline import Timeline as Simulated
from engines.sim.predict import Boot
from runner import doubts
from runner.boots.asks import Draw, asks_of, expected_hit_tokens, path_of, prompts_of
from runner.boots.boot import Bench
from runner.boots.measure import request_row
from runner.experiment.levels import Load
from runner.load import Timeline
from runner.load.census import census
from runner.load.evidence import windows_of
from runner.load.figures import Figures, figures
from runner.load.proof import Proof
from runner.load.verdict import verdict
from runner.stored import rows
from runner.stored.store import Desk

_ORIGIN_NS: Final = 1_000_000_000
"""Where an engine's clock begins: a time of 0 would mean that nothing happened."""


def predicted_loads(bench: Bench, boot: Boot, desk: Desk) -> None:
    """Run all loads of a boot; the one under which the engine would die is not kept."""
    seed, number, order = bench.plan.experiment.seed, bench.planned.boot, 0
    for load in bench.plan.loads:
        for repeat in range(load.repeats):
            bench.tell(load.load)
            draw = Draw(seed=seed, boot=number, load=load.load, repeat=repeat)
            row, timelines, opened_ns = _run(load, draw, bench, boot)
            if not boot.alive:
                return
            keys = {"load": load.load, "repeat": repeat, **desk.key.columns}
            requests = (request_row(one, opened_ns, keys) for one in timelines)
            desk.add_load({**row, **keys, "order": order}, requests)
            order += 1


def _run(
    load: Load, draw: Draw, bench: Bench, boot: Boot
) -> tuple[dict[str, Any], list[Timeline], int]:
    """Return the row of a load, its timelines, and when its window opens."""
    engine, vocabulary = bench.planned.cell.engine, bench.build.vocabulary
    window, warmup = (
        asks_of(load, draw, vocabulary, engine, bench.planned.cell.served_name, purpose)
        for purpose in ("window", "warmup")
    )
    flushed = boot.flush() if load.keys.flush else None
    before = boot.counters
    opened_s, lines = boot.load(
        path_of(load, engine),
        window,
        warmup=tuple(warmup),
        concurrency=load.in_flight,
        duration_s=load.duration_s,
    )
    timelines = [_timeline(line, load) for line in lines]
    windows = windows_of(census(timelines), load.in_flight, load.duration_s, _ns(opened_s))
    opened_ns, closed_ns = windows.opened_ns, windows.closed_ns
    found = figures(timelines, opened_ns=opened_ns, closed_ns=closed_ns, steady=windows.steady)
    prompts = itertools.islice(prompts_of(load, draw, vocabulary, "window"), found.requests)
    row = {
        "workload": load.workload,
        "asked": json.dumps(load.asked, sort_keys=True),
        "level_kind": load.level_kind,
        "level": load.level,
        "since_ready_s": opened_s,
        "flushed": flushed,
        "expected_hit_tokens": expected_hit_tokens(prompts),
        **rows.flat(found),
        **{name: total - before[name] for name, total in boot.counters.items()},
    }
    return row | _judged(load, found, row), timelines, opened_ns


def _judged(load: Load, found: Figures, row: dict[str, Any]) -> dict[str, Any]:
    """Return what is doubtful about a load in itself; no client measured it."""
    drawn_per_s = None if load.in_flight else load.level
    nobody = Proof(asked_in_flight=load.in_flight, drawn_per_s=drawn_per_s)
    reasons = verdict(found, nobody).reasons
    judged = [
        *doubts.of_load({**row, "load": load.load}),
        *(doubts.of_reason(one.name, one.severity, load.load, one.sentence) for one in reasons),
    ]
    return {"doubts": [entry.row() for entry in judged], "verdict": doubts.verdict(judged)}


def _timeline(line: Simulated, load: Load) -> Timeline:
    """Return a simulated request as one that a client would have timed."""
    ask, tokens_ns = line.ask, tuple(map(_ns, line.token_s))
    timed = load.in_flight is None and not line.warmup
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
    )


def _ns(simulated_s: float) -> int:
    return _ORIGIN_NS + round(simulated_s * 1e9)
