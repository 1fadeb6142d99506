"""One load against one live server: flush, warm-up, window, counters, figures, doubts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engines import Engine
from runner import doubts, pages
from runner.asks import Draw
from runner.levels import Load
from runner.load import Target
from runner.load.figures import figures_of
from runner.workloads import Vocabulary


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
        died: polled during the load; a sentence once the server is gone.
    """

    engine: Engine
    model: str
    control_url: str
    target: Target
    vocabulary: Vocabulary
    ready_ns: int
    died: Callable[[], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one load left behind.

    Attributes:
        row: its row in `loads`, without the boot's keys.
        requests: its rows in `requests`, without the boot's keys, read as they are asked for.
        aborted: why it was cut short, None when it ran to its end.
    """

    row: dict[str, Any]
    requests: Iterator[dict[str, Any]]
    aborted: str | None


def measure(
    load: Load,
    draw: Draw,
    live: Live,
    *,
    client: Client,
    spool: Path,
) -> Measured:
    """Run one load and return its rows."""
    flushed = pages.flush(live.engine, live.control_url) if load.keys.flush else None
    before = pages.counters(live.engine, live.control_url)
    started_at = datetime.now(UTC)
    driven = _drive(load, draw, live, client, spool)
    after = pages.counters(live.engine, live.control_url)
    figures = figures_of(driven)
    row = {
        "load": load.load,
        "repeat": draw.repeat,
        "workload": load.workload,
        "level_kind": load.level_kind,
        "level": load.level,
        "started_at": started_at,
        "since_ready_s": (driven.opened_ns - live.ready_ns) / 1e9,
        "flushed": flushed,
        "expected_hit_tokens": _expected_hits(load, draw, live.vocabulary),
        **dataclasses.asdict(figures),
        **dataclasses.asdict(driven.proof),
        **_differences(before, after),
    }
    found = [*doubts.of_load(row), *_client_doubts(load, driven, figures, client.limits)]
    row |= {"doubts": [entry.row() for entry in found], "verdict": doubts.verdict(found)}
    return Measured(row=row, requests=_requests(load, draw, driven), aborted=driven.aborted)
