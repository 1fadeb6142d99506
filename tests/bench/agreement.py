"""Holds our client against `vllm bench serve` on one real server, and both against the wire.

    python -m tests.bench.agreement [ENGINE ...] [--rounds 5] [--streams 32]

Each engine is booted once on core 0. Both clients take turns on core 1 with prompts of equal length
that no cache holds, each recorded by a tap on the wire (root). Per figure: the median claim of
each over the rounds, its range, and how far the claim was off what the wire saw. Where the clients
differ by more than their ranges, the errors say whose fault it is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engines import Sampling
from runner.load import Ask, Target
from runner.load.drive import drive
from runner.load.figures import figures
from runner.load.wire import Tapped, interface_to, tapped
from runner.preflight.build import vocabulary_of
from tests.bench.peers import CLIENT_CORE, Claim, Job, claimed, pinned, vllm
from tests.real.booting import IMAGES, Booted, booting

FIGURES: dict[str, tuple[Callable[[Claim], float], str]] = {
    "TTFT p50": (lambda claim: claim.ttft_p50_s * 1e3, "ms"),
    "TTFT p99": (lambda claim: claim.ttft_p99_s * 1e3, "ms"),
    "ITL p50": (lambda claim: claim.itl_p50_s * 1e3, "ms"),
    "ITL p99": (lambda claim: claim.itl_p99_s * 1e3, "ms"),
    "output tokens/s": (lambda claim: claim.output_tokens_per_s, ""),
}
CORE = 'cpus = "0"'
VOCABULARY = vocabulary_of({"vocab_size": 4096})


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a client claimed of one load, and what the wire saw of it."""

    claim: Claim
    wire: Claim
    lost: int


def main() -> None:
    """Boot, load in turns, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.agreement")
    parser.add_argument("engines", nargs="*", default=list(IMAGES), metavar="ENGINE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=32)
    args = parser.parse_args()
    for engine in args.engines:
        with (
            tempfile.TemporaryDirectory(prefix="bench-real-") as folder,
            booting(engine, Path(folder), max_running=args.streams, keys=CORE) as booted,
        ):
            rounds = list(in_turns(booted, args.rounds, args.streams))
        for line in lines(rounds):
            print(f"{engine:7} {line}", flush=True)


def in_turns(booted: Booted, rounds: int, streams: int) -> Iterator[dict[str, Round]]:
    """Let both clients load a server, the one that begins alternating; a first round warms it."""
    clients: list[tuple[str, Callable[[Job], Claim]]] = [
        ("ours", lambda job: ours(booted, job)),
        ("vllm bench serve", vllm),
    ]
    for number in range(-1, rounds):
        done = {}
        for name, client in clients if number % 2 else reversed(clients):
            booted.flush()
            job = Job(
                host=booted.server.load_host,
                port=booted.server.load_port,
                model=booted.cell.served_name,
                streams=streams,
                requests=8 * streams,
                input_tokens=128,
                output_tokens=32,
                seed=random.randrange(1 << 30),
            )
            done[name] = watched(client, job)
        if number >= 0:
            yield done


def watched(client: Callable[[Job], Claim], job: Job) -> Round:
    """Run one load with a tap on its wire."""
    with tempfile.TemporaryDirectory(prefix="bench-tap-") as folder:
        interface = interface_to(job.host)
        with tapped(Path(folder), port=job.port, interface=interface) as tap:
            claim = client(job)
    lost = tap.wire.lost if tap.wire else 0
    return Round(claim=claim, wire=wire_of(tap, job), lost=lost)


def wire_of(tap: Tapped, job: Job) -> Claim:
    """Return what the wire saw of the load; a trial request that came before is left out."""
    seen = [one for one in tap.timelines() if one.chunk_ns][-job.requests :]
    opened_ns = min(one.sent_ns for one in seen)
    closed_ns = max(one.chunk_ns[-1] for one in seen)
    found = figures(seen, opened_ns=opened_ns, closed_ns=closed_ns, steady=None)
    return Claim(
        ttft_p50_s=found.ttft.p50_s or 0.0,
        ttft_p99_s=found.ttft.p99_s or 0.0,
        itl_p50_s=found.itl.p50_s or 0.0,
        itl_p99_s=found.itl.p99_s or 0.0,
        output_tokens_per_s=job.requests * job.output_tokens / (closed_ns - opened_ns) * 1e9,
        ok=len(seen),
    )


def ours(booted: Booted, job: Job) -> Claim:
    """Drive a real server with our client."""
    rng, path = random.Random(job.seed), booted.cell.engine.completions_path
    target = Target(host=job.host, port=job.port, path=path, way=booted.server.way)
    with tempfile.TemporaryDirectory(prefix="bench-spool-") as folder, pinned(CLIENT_CORE):
        driven = drive(
            target=target,
            asks=itertools.islice(asks(booted, job, rng), job.requests),
            in_flight=job.streams,
            cpus=(CLIENT_CORE,),
            request_timeout_s=120.0,
            spool=Path(folder),
        )
        return claimed(driven)


def asks(booted: Booted, job: Job, rng: random.Random) -> Iterator[Ask]:
    """Yield requests of random token ids."""
    engine = booted.cell.engine
    while True:
        prompt = VOCABULARY.ids(rng, job.input_tokens)
        body = engine.completion(job.model, prompt, job.output_tokens, Sampling())
        yield Ask(
            body=json.dumps(body).encode(),
            input_tokens=job.input_tokens,
            output_tokens=job.output_tokens,
        )


def lines(rounds: list[dict[str, Round]]) -> Iterator[str]:
    """Yield a line per figure."""
    for what, (figure, unit) in FIGURES.items():
        words, centres = [], []
        for name in ("ours", "vllm bench serve"):
            claims = [figure(done[name].claim) for done in rounds]
            errors = [figure(done[name].claim) - figure(done[name].wire) for done in rounds]
            centres.append(statistics.median(claims))
            words.append(
                f"{name} {centres[-1]:.2f} [{min(claims):.2f} - {max(claims):.2f}] {unit}, "
                f"off the wire {statistics.median(errors):+.2f}"
            )
        yield f"{what:16} {words[0]:64} {words[1]:72} ratio {centres[1] / centres[0]:.3f}"
    left_ms = [(done["ours"].claim.remaining_error_p99_s or 0) * 1e3 for done in rounds]
    yield f"ours, by its own proof: error left in a time, p99 {statistics.median(left_ms):.3f} ms"
    for name in ("ours", "vllm bench serve"):
        seen = [done[name] for done in rounds]
        yield (
            f"{name}: {sum(one.claim.ok for one in seen)} requests claimed, "
            f"{sum(one.wire.ok for one in seen)} on the wire, packets not seen there: "
            f"{sum(one.lost for one in seen)}"
        )


if __name__ == "__main__":
    main()
