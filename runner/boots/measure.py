"""One load against one live server: flush, warm-up, window, counters, figures, doubts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engines import Engine, Version
from runner import doubts, workloads
from runner.boots import pages, probe
from runner.boots.asks import Draw, asks_of, expected_hit_tokens, path_of, prompts_of
from runner.boots.moving import doubts_about_drift
from runner.boots.pressure import watched
from runner.experiment.levels import Load, load_ids
from runner.load import Ask, Target, Timeline
from runner.load.compare import against_wire
from runner.load.drive import Driven, drive
from runner.load.figures import Figures, figures
from runner.load.patience import ENDLESS, Cut, Patience
from runner.load.verdict import Limits, verdict
from runner.load.wire import interface_to, tapped
from runner.stored import rows
from runner.workloads import Vocabulary

_PATIENCE = pages.Caller(timeout_s=3)
"""A page that is later than this is no reading: a load waits for the last one to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The measuring client.

    Attributes:
        workers: processes that send.
        cpus: cores they are pinned to, None for any.
        request_timeout_s: a request unanswered by then has failed.
        patience: a load that gets nowhere, or takes too long, is cut.
        limits: when a load is void.
        audit: hold every load against the wire, which needs CAP_NET_RAW.
    """

    workers: int = 1
    cpus: tuple[int, ...] | None = None
    request_timeout_s: float = 300
    patience: Patience = ENDLESS
    limits: Limits = field(default_factory=Limits)
    audit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A server that is ready, as the load sees it.

    Attributes:
        engine: which engine speaks there.
        model: the name it serves.
        control_url: where control calls go.
        target: where the load goes.
        vocabulary: token ids prompts may use.
        ready_ns: when it became ready, by CLOCK_MONOTONIC.
        absent_cached_tokens: what an answer that says nothing of cached tokens means: 0 where the
            server was told to report them (releases leave out a 0), None where it was not.
        died: polled during the load; a sentence once the server is gone.
        version: its release, None where nothing tells it.
    """

    engine: Engine
    model: str
    control_url: str
    target: Target
    vocabulary: Vocabulary
    ready_ns: int
    died: Callable[[], str | None]
    absent_cached_tokens: int | None = None
    version: Version | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one load left behind.

    Attributes:
        row: its row in `loads`, without the boot's keys.
        requests: its rows in `requests`, without the boot's keys, read as they are asked for.
        metrics: its rows in `metrics`, without the boot's keys.
        aborted: why it was cut short, None when it ran to its end or was a probe of too high a
            level.
        cut: which limit of the client's patience that was, None when none did it.
    """

    row: dict[str, Any]
    requests: Iterator[dict[str, Any]]
    metrics: list[dict[str, Any]]
    aborted: str | None
    cut: Cut | None = None


def measure(load: Load, draw: Draw, live: Live, *, client: Client, spool: Path) -> Measured:
    """Run one load and return its rows; `spool` is a folder for the client's own files."""
    flushed = None
    if load.keys.flush:
        flushed = pages.flush(live.engine, live.control_url, version=live.version)
    before = pages.counters(live.engine, live.control_url)
    started_at = datetime.now(UTC)
    gauge = probe.Gauge(load)
    with watched(lambda: pages.counters(live.engine, live.control_url, _PATIENCE)) as metrics:
        driven, wire = _driven(load, draw, live, client, spool, gauge)
    after = pages.counters(live.engine, live.control_url)
    found = figures(
        driven.timelines(),
        opened_ns=driven.opened_ns,
        closed_ns=driven.closed_ns,
        steady=driven.steady,
    )
    row = {
        **asked_columns(load, draw, live.vocabulary, found.requests),
        "started_at": started_at,
        "since_ready_s": (driven.opened_ns - live.ready_ns) / 1e9,
        "flushed": flushed,
        **rows.flat(found),
        **rows.flat(driven.proof),
        **wire,
        **_growth(before, after),
    }
    if found.ok and row["cached_tokens"] is None:
        row["cached_tokens"] = live.absent_cached_tokens
    judged = [*doubts.of_load(row), *_client_doubts(load, driven, found, client.limits)]
    judged += doubts_about_drift(load, driven.timelines())
    if load.probe is not None:
        tried = probe.Tried(
            figures=found,
            timelines=driven.timelines,
            doubts=judged,
            limits=client.limits,
            proof=driven.proof,
            overload=gauge.said,
        )
        row["met"], judged = probe.judged(load, tried)
    row |= {"doubts": [entry.row() for entry in judged], "verdict": doubts.verdict(judged)}
    keys = {"load": load.load, "repeat": draw.repeat}
    requests = (
        request_row(_told(timeline, live), driven.opened_ns, keys)
        for timeline in driven.timelines()
    )
    return Measured(
        row=row,
        requests=requests,
        metrics=[{**keys, **reading} for reading in metrics],
        aborted=None if gauge.said else driven.aborted,
        cut=driven.cut,
    )


def _told(timeline: Timeline, live: Live) -> Timeline:
    """Return a timeline with the cached tokens that its answer's silence means."""
    if timeline.cached_tokens is not None or timeline.outcome != "ok":
        return timeline
    return replace(timeline, cached_tokens=live.absent_cached_tokens)


def request_row(timeline: Timeline, opened_ns: int, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return a timeline as a row of `requests`, its times counted from the window's opening."""

    def since(at_ns: int | None) -> int | None:
        return None if at_ns is None else at_ns - opened_ns

    times = ("intended_ns", "sent_ns", "first_ns", "last_ns", "ended_ns")
    return {
        **keys,
        **{name: getattr(timeline, name) for name in timeline.__slots__},
        **{name: since(getattr(timeline, name)) for name in times},
        "chunk_ns": [at_ns - opened_ns for at_ns in timeline.chunk_ns],
        "chunk_tokens": list(timeline.chunk_tokens),
    }


def _driven(
    load: Load, draw: Draw, live: Live, client: Client, spool: Path, gauge: probe.Gauge
) -> tuple[Driven, dict[str, float | int | None]]:
    """Run the load, beside a tap on the wire where an audit is asked; return its columns too."""
    if not client.audit:
        return _drive(load, draw, live, client, spool, gauge), {}
    interface = interface_to(live.target.host)
    with tapped(spool / "wire", port=live.target.port, interface=interface) as tap:
        driven = _drive(load, draw, live, client, spool / "client", gauge)
    found = against_wire(driven.timelines, tap.timelines())
    lost = tap.wire.lost if tap.wire else None
    return driven, {
        "wire_requests": found.ttft.count,
        "wire_ttft_error_p50_s": found.ttft.p50_s,
        "wire_ttft_error_p99_s": found.ttft.p99_s or found.ttft.max_s,
        "wire_itl_error_p50_s": found.itl.p50_s,
        "wire_itl_error_p99_s": found.itl.p99_s or found.itl.max_s,
        "wire_lost": lost,
    }


def _drive(
    load: Load, draw: Draw, live: Live, client: Client, spool: Path, gauge: probe.Gauge
) -> Driven:
    def asks(purpose: str) -> Iterator[Ask]:
        return asks_of(load, draw, live.vocabulary, live.engine, live.model, purpose)

    return drive(
        target=replace(live.target, path=path_of(load, live.engine)),
        asks=asks("window"),
        warmup=asks("warmup"),
        in_flight=load.in_flight,
        max_in_flight=load.keys.max_in_flight,
        duration_s=load.duration_s,
        workers=client.workers,
        cpus=client.cpus,
        request_timeout_s=client.request_timeout_s,
        spool=spool,
        stop_when=lambda: live.died() or gauge.overload(),
        tell_flying=gauge.note,
        patience=client.patience,
    )


def asked_columns(load: Load, draw: Draw, vocabulary: Vocabulary, requests: int) -> dict[str, Any]:
    """Return the columns of `loads` that tell what was asked, whoever answered it.

    Args:
        load: the load.
        draw: what its prompts are drawn from.
        vocabulary: the token ids they are drawn among.
        requests: how many the window held; the hits that they share by construction are counted.
    """
    prompts = prompts_of(load, draw, vocabulary, "window")
    return {
        "load": load.load,
        "repeat": draw.repeat,
        "workload": load.workload,
        "asked": json.dumps(load.asked, sort_keys=True),
        "level_kind": load.level_kind,
        "level": load.level,
        "expected_hit_tokens": expected_hit_tokens(itertools.islice(prompts, requests)),
        "search": load_ids(load.keys)[0] if load.probe is not None else None,
        "probe": load.probe,
    }


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float | None]:
    """Return how far each running total went up; None where either page did not tell."""
    totals = ("prefix_query_tokens", "prefix_hit_tokens", "preemptions")
    return {
        name: after[name] - before[name] if name in before and name in after else None
        for name in totals
    }


def _client_doubts(
    load: Load, driven: Driven, found: Figures, limits: Limits
) -> Iterator[doubts.Doubt]:
    chats = workloads.get(load.workload).chats(load.spec)
    own = replace(limits, silent_ends=found.ok + load.warmup_requests if chats else 0)
    for reason in verdict(found, driven.proof, own, driven.aborted).reasons:
        yield doubts.of_reason(reason.name, reason.severity, load.load, reason.sentence)
