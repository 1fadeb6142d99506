"""From timelines to the figures of a load. Pure; memory does not grow with the requests.

TTFT: from the intended time (open loop) or the send (closed loop) to the first chunk that carries
tokens. ITL: gap between chunks that carry tokens; k tokens in a chunk are one gap. Token gap: that
gap shared among the chunk's k tokens. TPOT: (last - first) / (output tokens - tokens of the first
chunk), of requests with more than one chunk. End to end: to the last chunk that carries tokens,
counted as TTFT is. Client queue: send minus intended time. Only successful requests count;
those of the warm-up only in the steady window's throughput.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from runner.load import Timeline
from runner.load.census import Steady
from runner.load.spread import Floats, Quantiles, Spread

_BATCH: Final = 1024
_LATENCIES: Final = ("ttft", "ttft_from_send", "itl", "tpot", "token_gap", "e2e", "client_queue")

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a load came to. Failed requests are in `outcomes` and nowhere else.

    Attributes:
        requests: requests of the window.
        ok: those that succeeded.
        outcomes: how many ended in each way.
        duration_s: length of the window.
        steady_s: length of its steady part, 0 when there was none.
        input_tokens: prompt tokens of successful requests, as the server counts.
        cached_tokens: those of them that came from the prefix cache; None when it does not say.
        output_tokens: output tokens of successful requests, as the server counts.
        output_tokens_per_s: those that arrived in the window, by its length.
        requests_per_s: successful requests that ended in the window, by its length.
        steady_output_tokens_per_s: tokens that arrived in the steady part, the warm-up's too.
        steady_requests_per_s: successful requests that ended in it, the warm-up's too.
        ttft: time to first token.
        ttft_from_send: the same, counted from the send also in open loop.
        itl: gap between chunks.
        tpot: time per output token of a request.
        token_gap: time per token, a chunk's gap shared among its tokens.
        e2e: end to end.
        client_queue: send minus intended time; empty in closed loop.
    """

    requests: int = 0
    ok: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    duration_s: float = 0.0
    steady_s: float = 0.0
    input_tokens: int = 0
    cached_tokens: int | None = None
    output_tokens: int = 0
    output_tokens_per_s: float | None = None
    requests_per_s: float | None = None
    steady_output_tokens_per_s: float | None = None
    steady_requests_per_s: float | None = None
    ttft: Quantiles = field(default_factory=Quantiles)
    ttft_from_send: Quantiles = field(default_factory=Quantiles)
    itl: Quantiles = field(default_factory=Quantiles)
    tpot: Quantiles = field(default_factory=Quantiles)
    token_gap: Quantiles = field(default_factory=Quantiles)
    e2e: Quantiles = field(default_factory=Quantiles)
    client_queue: Quantiles = field(default_factory=Quantiles)


@dataclass(slots=True)
class _Window:
    """What arrived between two moments."""

    from_ns: int
    to_ns: int
    tokens: float = 0.0
    requests: int = 0

    def count(self, columns: _Columns, which: npt.NDArray[np.bool_]) -> None:
        inside = (columns.chunk_ns >= self.from_ns) & (columns.chunk_ns <= self.to_ns)
        inside &= which[columns.owner]
        self.tokens += float(columns.weight[inside].sum())
        ended = (columns.ended_ns >= self.from_ns) & (columns.ended_ns <= self.to_ns) & which
        self.requests += int(ended.sum())

    def rates(self) -> tuple[float | None, float | None]:
        seconds = (self.to_ns - self.from_ns) / 1e9
        return (self.tokens / seconds, self.requests / seconds) if seconds > 0 else (None, None)


def figures(
    timelines: Iterable[Timeline], *, opened_ns: int, closed_ns: int, steady: Steady | None
) -> Figures:
    """Compute the figures of one load from its timelines and windows."""
    outcomes: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    spreads = {name: Spread() for name in _LATENCIES}
    whole = _Window(opened_ns, closed_ns)
    inner = _Window(steady.from_ns, steady.to_ns) if steady else _Window(0, 0)
    for batch in _batches(timelines):
        outcomes.update(one.outcome for one in batch if not one.warmup)
        columns = _columns([one for one in batch if one.outcome == "ok"])
        whole.count(columns, columns.measured)
        inner.count(columns, np.ones_like(columns.measured))
        for name, values in _latencies(columns):
            spreads[name].add(values)
        _sum(totals, batch)
    rate, requests_rate = whole.rates()
    steady_rate, steady_requests_rate = inner.rates()
    return Figures(
        requests=outcomes.total(),
        ok=outcomes["ok"],
        outcomes=dict(outcomes),
        duration_s=(closed_ns - opened_ns) / 1e9,
        steady_s=(inner.to_ns - inner.from_ns) / 1e9,
        input_tokens=totals["input"],
        cached_tokens=totals.get("cached"),
        output_tokens=totals["output"],
        output_tokens_per_s=rate,
        requests_per_s=requests_rate,
        steady_output_tokens_per_s=steady_rate,
        steady_requests_per_s=steady_requests_rate,
        **{name: spread.quantiles() for name, spread in spreads.items()},
    )


def _batches(timelines: Iterable[Timeline]) -> Iterator[Sequence[Timeline]]:
    remaining = iter(timelines)
    while batch := list(itertools.islice(remaining, _BATCH)):
        yield batch


def _sum(totals: Counter[str], batch: Sequence[Timeline]) -> None:
    for one in batch:
        if one.outcome == "ok" and not one.warmup:
            totals["input"] += one.input_tokens or 0
            totals["output"] += one.output_tokens or 0
            if one.cached_tokens is not None:
                totals["cached"] += one.cached_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Successful requests as columns; `owner` says to which request a chunk belongs.

    `weight` is a chunk's tokens, scaled so that a request's chunks sum to the server's own count.
    """

    measured: npt.NDArray[np.bool_]
    sent_ns: Integers
    intended_ns: Integers
    ended_ns: Integers
    output_tokens: Integers
    chunk_ns: Integers
    chunk_tokens: Integers
    owner: Integers
    weight: Floats


def _columns(batch: Sequence[Timeline]) -> _Columns:
    sizes = [len(one.chunk_ns) for one in batch]
    owner = np.repeat(np.arange(len(batch)), sizes)
    tokens = _integers(itertools.chain.from_iterable(one.chunk_tokens for one in batch))
    output = _integers(one.output_tokens or 0 for one in batch)
    counted = np.bincount(owner, weights=tokens, minlength=len(batch))
    return _Columns(
        measured=np.array([not one.warmup for one in batch], bool),
        sent_ns=_integers(one.sent_ns for one in batch),
        intended_ns=_integers(-1 if one.intended_ns is None else one.intended_ns for one in batch),
        ended_ns=_integers(one.ended_ns for one in batch),
        output_tokens=output,
        chunk_ns=_integers(itertools.chain.from_iterable(one.chunk_ns for one in batch)),
        chunk_tokens=tokens,
        owner=owner,
        weight=tokens * (output / np.maximum(counted, 1))[owner],
    )


def _latencies(columns: _Columns) -> Iterator[tuple[str, Floats]]:
    """Yield the latencies of the measured requests among the columns, in seconds."""
    chunks = columns.measured[columns.owner]
    owner, chunk_ns = columns.owner[chunks], columns.chunk_ns[chunks]
    tokens = columns.chunk_tokens[chunks]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    last = np.flatnonzero(np.diff(owner, append=-1))
    who = owner[first]
    timed = columns.intended_ns >= 0
    start_ns = np.where(timed, columns.intended_ns, columns.sent_ns)
    yield "ttft", (chunk_ns[first] - start_ns[who]) / 1e9
    yield "ttft_from_send", (chunk_ns[first] - columns.sent_ns[who]) / 1e9
    yield "e2e", (chunk_ns[last] - start_ns[who]) / 1e9
    queued = timed & columns.measured
    yield "client_queue", (columns.sent_ns - columns.intended_ns)[queued] / 1e9
    within = np.ones(len(owner), bool)
    within[first] = False
    gap_s = np.diff(chunk_ns, prepend=0)[within] / 1e9
    yield "itl", gap_s
    yield "token_gap", np.repeat(gap_s / tokens[within], tokens[within])
    later_tokens = columns.output_tokens[who] - tokens[first]
    several = (last > first) & (later_tokens > 0)
    span_s = (chunk_ns[last] - chunk_ns[first])[several] / 1e9
    yield "tpot", span_s / later_tokens[several]


def _integers(values: Iterable[int]) -> Integers:
    return np.fromiter(values, np.int64)
