"""The client's own error, measured in two seconds against a server whose times are known."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from runner.load.compare import compared
from runner.load.drive import drive
from runner.load.figures import figures
from runner.load.golden import Plan
from runner.load.golden.process import Golden, golden_ask, served

_PLAN = Plan(ttft_s=0.05, jitter_s=0.01, itl_s=0.01)
_OUTPUT_TOKENS = 64

Serve = Callable[..., AbstractContextManager[Golden]]
"""Runs a golden server, called as `served`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What the client adds by itself at a number of streams of 100 tokens/s each.

    Attributes:
        in_flight: streams.
        ttft_error_p50_s: absolute error of a request's TTFT, median; None when nothing matched.
        ttft_error_p99_s: its 99 % quantile, or the largest of fewer than 100.
        itl_error_p50_s: absolute error of a gap between chunks, median.
        itl_error_p99_s: its 99 % quantile.
        output_tokens_per_s: rate at which the tokens came.
        cpu_per_token_s: the workers' CPU time by tokens.
    """

    in_flight: int
    ttft_error_p50_s: float | None
    ttft_error_p99_s: float | None
    itl_error_p50_s: float | None
    itl_error_p99_s: float | None
    output_tokens_per_s: float | None
    cpu_per_token_s: float | None


def floor(
    *,
    in_flight: int = 64,
    workers: int = 1,
    cpus: tuple[int, ...] | None = None,
    golden_cpu: int | None = None,
    duration_s: float = 2.0,
    serve: Serve = served,
) -> Floor:
    """Measure the client's floor.

    Args:
        in_flight: streams to hold.
        workers: worker processes, as the load to come will have.
        cpus: their cores.
        golden_cpu: core of the golden server.
        duration_s: length of the window.
        serve: runs the golden server.

    Raises:
        OSError: the golden server did not start.
    """
    with tempfile.TemporaryDirectory(prefix="runner-floor-") as folder:
        truth = Path(folder, "truth")
        with serve(_PLAN, truth, cpu=golden_cpu) as golden:
            driven = drive(
                target=golden.target(),
                asks=(golden_ask(n, output_tokens=_OUTPUT_TOKENS) for n in itertools.count()),
                in_flight=in_flight,
                workers=workers,
                cpus=cpus,
                request_timeout_s=30.0,
                spool=Path(folder, "spool"),
                duration_s=duration_s,
            )
        errors = compared(driven.timelines(), golden.truth())
        found = figures(
            driven.timelines(),
            opened_ns=driven.opened_ns,
            closed_ns=driven.closed_ns,
            steady=driven.steady,
        )
    return Floor(
        in_flight=in_flight,
        ttft_error_p50_s=errors.ttft.p50_s,
        ttft_error_p99_s=errors.ttft.p99_s or errors.ttft.max_s,
        itl_error_p50_s=errors.itl.p50_s,
        itl_error_p99_s=errors.itl.p99_s or errors.itl.max_s,
        output_tokens_per_s=found.output_tokens_per_s,
        cpu_per_token_s=driven.proof.cpu_per_token_s,
    )
