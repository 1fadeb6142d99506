"""How exact the load client is: errors against the golden server, arrivals, faults."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt
from scipy import stats

from runner.load import Ask, crew
from runner.load.arrivals import POISSON, Flat, due_times
from runner.load.drive import Driven, drive
from runner.load.figures import Figures, figures
from runner.load.golden import Every, Plan
from runner.load.golden.process import Golden, golden_ask, served
from tests.bench import bare
from tests.bench.judged import Row, Settings, at_least, at_most, ranged
from tests.bench.peers import CLIENT_CORE, CLIENTS, SERVER_CORE, Measured, measured, pinned

STREAMS = Plan(ttft_s=0.1, jitter_s=0.01, itl_s=0.01)


def streams(settings: Settings) -> Iterator[Row]:
    """Errors and CPU at 64, 256 and 512 streams x 100 tokens/s, beside the peers."""
    for count in (64, 256, 512):
        for name, client in CLIENTS.items():
            if name != "ours" and not settings.peers:
                continue
            runs = [
                measured(client, streams=count, requests=3 * count) for _ in range(settings.repeats)
            ]
            yield from _stream_rows(f"{count} streams, {name}", runs, ours=name == "ours")

    yield Row(name="512 streams, a bare loop: CPU a token", found=ranged(bare_us(settings), "us"))


def bare_us(settings: Settings) -> list[float]:
    """Return the CPU time a token of a loop that only reads, in this hour on this machine."""
    found = []
    for _ in range(settings.repeats):
        with (
            tempfile.TemporaryDirectory() as folder,
            served(STREAMS, Path(folder, "truth"), cpu=SERVER_CORE) as golden,
            pinned(CLIENT_CORE),
        ):
            found.append(bare.cpu_per_token_s(golden, 512, 1536, 128) * 1e6)
    return found


def _stream_rows(title: str, runs: Sequence[Measured], *, ours: bool) -> Iterator[Row]:
    errors = np.abs([run.errors_ms() for run in runs])
    named = zip(("TTFT p50", "TTFT p99", "ITL p99"), (0.2, 0.5, 0.2), errors.T, strict=True)
    for what, bound, values in named:
        name = f"{title}: {what} error"
        found = [float(value) for value in values]
        yield at_most(name, found, bound if ours else math.inf, "ms")
    cpu_us = [run.cpu_s / run.tokens * 1e6 for run in runs]
    yield Row(name=f"{title}: CPU a token, all processes", found=ranged(cpu_us, "us"))
    if ours:
        worker_us = [(run.claim.worker_cpu_s or 0) / run.tokens * 1e6 for run in runs]
        limit_us = 13.0 if title.startswith("512") else math.inf
        yield at_most(f"{title}: CPU a token, worker", worker_us, limit_us, "us")
        held = [(run.claim.held_ratio or 0) * 100 for run in runs]
        yield at_least(f"{title}: in flight held", held, 99, "%")
    rates = [run.tokens_per_s for run in runs]
    yield Row(name=f"{title}: tokens/s", found=ranged(rates, ""))


def busy(settings: Settings) -> Iterator[Row]:
    """Error added when the client's loop is 88 % busy."""
    added: list[list[float]] = [[], [], []]
    reads_per_s = 64 * 100
    for _ in range(settings.repeats):
        calm = measured(CLIENTS["ours"], streams=64, requests=192)
        busy_ns = (calm.claim.worker_cpu_s or 0) / calm.tokens * 1e9
        with burning(round(0.88 / reads_per_s * 1e9 - busy_ns)):
            burnt = measured(CLIENTS["ours"], streams=64, requests=192)
        for found, one, other in zip(added, burnt.errors_ms(), calm.errors_ms(), strict=True):
            found.append(abs(one) - abs(other))
    for what, values in zip(("TTFT p50", "TTFT p99", "ITL p99"), added, strict=True):
        yield at_most(f"64 streams, loop 88 % busy: {what} error added", values, 0.1, "ms")


@contextlib.contextmanager
def burning(burn_ns: int) -> Iterator[None]:
    """Let workers waste some time at every read."""
    environment = {"BURN_NS": str(max(burn_ns, 0))}
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.dict(crew.MODULES, {"worker": "tests.bench.burning"}),
    ):
        yield


def loaded(
    golden: Golden, folder: Path, asks: Iterable[Ask], in_flight: int | None
) -> tuple[Driven, Figures]:
    """Drive with our client on its core and compute the figures."""
    with pinned(CLIENT_CORE):
        driven = drive(
            target=golden.target(),
            asks=asks,
            in_flight=in_flight,
            cpus=(CLIENT_CORE,),
            request_timeout_s=120.0,
            spool=folder / "spool",
        )
    found = figures(
        driven.timelines(),
        opened_ns=driven.opened_ns,
        closed_ns=driven.closed_ns,
        steady=driven.steady,
    )
    return driven, found


def arrivals(settings: Settings) -> Iterator[Row]:
    """Poisson arrivals at 400/s of short requests, as the server received them."""
    rate = 400.0
    plan = Plan(ttft_s=0.05, itl_s=0.01)
    delivered, lags, variations, fits = [], [], [], []
    for seed in range(settings.repeats):
        drawn = list(
            itertools.takewhile(
                lambda due_s: due_s < settings.seconds,
                due_times(POISSON, Flat(rate), random.Random(seed)),
            )
        )
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with served(plan, folder / "truth", cpu=SERVER_CORE) as golden:
                asks = (
                    golden_ask(number, output_tokens=16, due_s=due_s)
                    for number, due_s in enumerate(drawn)
                )
                driven, _ = loaded(golden, folder, asks, None)
            received = sorted(one.sent_ns for one in golden.truth())
        gaps_s = np.diff(received) / 1e9
        drawn_s = np.diff(drawn)
        delivered.append(float(100 * drawn_s.mean() / gaps_s.mean()))
        lags.append((driven.proof.send_lag_p99_s or 0) * 1e3)
        variations.append(100 * abs(variation(gaps_s) / variation(drawn_s) - 1))
        fits.append(float(stats.kstest(gaps_s, "expon", args=(0, 1 / rate)).pvalue))
    yield at_least("Poisson 400/s: delivered rate by the drawn one", delivered, 99.8, "%")
    yield at_most("Poisson 400/s: send lag p99", lags, 1.0, "ms")
    yield at_most("Poisson 400/s: gap variation off the drawn one's", variations, 2.0, "%")
    yield at_least("Poisson 400/s: KS test against the law", fits, 0.01, "")


def variation(gaps_s: npt.NDArray[np.float64]) -> float:
    """Return the coefficient of variation."""
    return float(gaps_s.std() / gaps_s.mean())


def faults(settings: Settings) -> Iterator[Row]:
    """Four tokens a chunk, and faults every 7th and 10th request."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(Plan(chunk_tokens=4), folder / "truth", cpu=SERVER_CORE) as golden:
            asks = iter([golden_ask(number, output_tokens=128) for number in range(64)])
            _, found = loaded(golden, folder, asks, 16)
    itl_ms, token_ms = ((found.itl.p50_s or 0) * 1e3, (found.token_gap.p50_s or 0) * 1e3)
    yield Row(
        name="four tokens a chunk: ITL p50 and token gap p50",
        found=f"{itl_ms:.2f} and {token_ms:.2f} ms",
        bound="40 and 10 ms",
        kept=abs(itl_ms - 40) < 0.5 and abs(token_ms - 10) < 0.2,
    )
    everys = (Every(nth=10, changes={"status": 500}), Every(nth=7, changes={"abort_at": 64}))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(STREAMS, folder / "truth", cpu=SERVER_CORE, everys=everys) as golden:
            asks = iter([golden_ask(number, output_tokens=128) for number in range(70)])
            _, found = loaded(golden, folder, asks, 16)
    expected = {"ok": 54, "status": 7, "truncated": 9}
    yield Row(
        name="faults every 7th and 10th of 70 requests",
        found=str(dict(sorted(found.outcomes.items()))),
        bound=str(expected),
        kept=found.outcomes == expected,
    )
