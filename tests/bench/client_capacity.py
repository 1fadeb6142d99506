"""How much the load client bears: chunks/s, long prompts, many requests, a quick start."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from runner.load import Timeline, shard
from runner.load.golden import Plan
from runner.load.golden.process import golden_ask, served
from tests.bench.client_accuracy import loaded
from tests.bench.judged import Row, Settings, at_least, at_most
from tests.bench.peers import CLIENT_CORE, CLIENTS, SERVER_CORE, measured, pinned


def ceiling(settings: Settings) -> Iterator[Row]:
    """Chunks/s that one worker sustains inside the limits, and the golden server's own ceiling."""
    sustained = 0.0
    for itl_s in (0.01, 0.0085, 0.0075, 0.0065):
        plan = Plan(ttft_s=0.1, jitter_s=0.01, itl_s=itl_s)
        run = measured(CLIENTS["ours"], streams=512, requests=2048, plan=plan)
        first, second, third = (abs(error) for error in run.errors_ms())
        kept = first <= 0.2 and second <= 0.5 and third <= 0.2
        sustained = max(sustained, run.tokens_per_s if kept else 0.0)
        yield Row(
            name=f"512 streams at {512 / itl_s:.0f} tokens/s asked",
            found=f"{run.tokens_per_s:.0f}/s, errors {first:.3f} {second:.3f} {third:.3f} ms",
        )
    yield at_least("chunks/s of one worker inside the limits", [sustained], 60_000, "/s")
    yield Row(name="golden server's ceiling on one core", found=f"{drained_per_s():.0f} chunks/s")


def drained_per_s() -> float:
    """Return how many chunks/s the golden server sends to a client that only throws away."""
    plan = Plan(ttft_s=0.1, itl_s=0.001)
    ask = golden_ask(0, output_tokens=400)
    request = b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(ask.body)
    with tempfile.TemporaryDirectory() as folder:
        with (
            served(plan, Path(folder, "truth"), cpu=SERVER_CORE) as golden,
            pinned(CLIENT_CORE),
            contextlib.ExitStack() as stack,
        ):
            address = ("127.0.0.1", golden.port)
            socks = [stack.enter_context(socket.create_connection(address)) for _ in range(256)]
            for sock in socks:
                sock.sendall(request + ask.body)
            for sock in socks:
                while not sock.recv(1 << 20).endswith(b"0\r\n\r\n"):
                    pass
        times = np.sort(np.concatenate([np.array(one.chunk_ns) for one in golden.truth()]))
    middle = times[len(times) // 4 : 3 * len(times) // 4]
    return float(len(middle) / (middle[-1] - middle[0]) * 1e9)


def prompts(settings: Settings) -> Iterator[Row]:
    """1,024 streams of 50,000-token prompts, against a raw socket's bytes/s."""
    ask = golden_ask(0, output_tokens=4, input_tokens=50_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with served(Plan(ttft_s=0.5), folder / "truth", cpu=SERVER_CORE) as golden:
            driven, found = loaded(golden, folder, itertools.repeat(ask, 1024), 1024)
        last_ns = max(one.sent_ns for one in golden.truth())
    rate = 1024 * len(ask.body) / (last_ns - driven.opened_ns)
    raw = raw_gb_per_s(1024 * len(ask.body))
    yield Row(
        name="1,024 prompts of 50,000 tokens",
        found=f"{found.ok} ok, {rate:.2f} GB/s; a raw socket {raw:.2f} GB/s",
        bound="1024 ok",
        kept=found.ok == 1024,
    )


def raw_gb_per_s(size_bytes: int) -> float:
    """Return how fast one thread sends to another through loopback, a core each."""
    listener = socket.create_server(("127.0.0.1", 0))
    took: list[float] = []

    def drain() -> None:
        os.sched_setaffinity(threading.get_native_id(), {SERVER_CORE})
        sock, _ = listener.accept()
        with sock:
            began_s = time.perf_counter()
            while sock.recv(1 << 18):
                pass
            took.append(time.perf_counter() - began_s)

    thread = threading.Thread(target=drain)
    thread.start()
    piece = bytes(1 << 18)
    with pinned(CLIENT_CORE), socket.create_connection(listener.getsockname()) as sock:
        for _ in range(size_bytes // len(piece)):
            sock.sendall(piece)
    thread.join()
    listener.close()
    return size_bytes / took[0] / 1e9


def memory(settings: Settings) -> Iterator[Row]:
    """Memory to judge and to store a million requests of 128 tokens, read from their shard."""
    count = 1_000_000
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "shard")
        fill(path, count)
        for what, code in (("judge", JUDGING), ("store", STORING)):
            began_s = time.perf_counter()
            said = subprocess.run(
                [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
            ).stdout.split()
            took_s = time.perf_counter() - began_s
            title = f"{what} a million requests of 128 tokens"
            yield Row(
                name=f"gaps or chunks seen to {title}",
                found=said[0],
                bound=f">= {count * 127}",
                kept=int(said[0]) >= count * 127,
            )
            yield at_most(f"memory to {title}", [int(said[1]) / 1e6], 2.0, "GB")
            yield Row(name=f"time to {title}", found=f"{took_s:.0f} s")


JUDGING = """
import resource, sys
from pathlib import Path
from runner.load import shard
from runner.load.census import census
from runner.load.figures import figures

path = Path(sys.argv[1])
found = census(shard.read(path))
times = dict(opened_ns=found.opened_ns, closed_ns=found.last_ended_ns, steady=None)
print(figures(shard.read(path), **times).itl.count)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

STORING = """
import resource, sys
from pathlib import Path
import pyarrow.parquet as pq
from runner.load import shard
from runner.boots.measure import request_row
from runner.stored.store import BootKey, Store

path = Path(sys.argv[1])
desk = Store(path.parent / "results", "bench").new_run("content", "").desk("cell", 0)
keys = dict(desk.key.columns, load="random@c1", repeat=0)
desk.add_load(keys, (request_row(one, 0, keys) for one in shard.read(path)))
print(sum(pq.read_metadata(file).num_rows for file in desk.folder.glob("requests-*")) * 128)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def fill(path: Path, count: int) -> None:
    """Write a shard of so many requests, as a worker's parser leaves it."""
    tokens = array("I", [1] * 128)
    gaps = np.cumsum(np.random.default_rng(1).uniform(9e6, 11e6, 128)).astype(np.int64)
    with path.open("wb") as file:
        for number in range(count):
            sent_ns = 1_000_000_000 + number * 10_000
            times = array("q", (gaps + sent_ns).tobytes())
            one = Timeline(
                request=number, sent_ns=sent_ns, ended_ns=times[-1] + 1, stamp="kernel",
                input_tokens=32, output_tokens=128,
            )  # fmt: skip
            shard.write(file, one, times, tokens)


def start(settings: Settings) -> Iterator[Row]:
    """From starting a worker to its first request."""
    found = []
    for _ in range(settings.repeats):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with served(Plan(), folder / "truth", cpu=SERVER_CORE) as golden:
                asks = iter([golden_ask(0, output_tokens=1)])
                driven, _ = loaded(golden, folder, asks, 1)
        found.append(driven.proof.start_s or 0)
    yield at_most("start of a worker to its first request", found, 1.0, "s")
