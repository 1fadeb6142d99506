"""Prints how fast logs are read, and with how much memory.

    python -m tests.bench.scrape [--megabytes 200]

Each log is a boot of the corpus followed by one kind of serving lines, fed in blocks as a growing
log would be. The rate is of CPU time on one core; memory is the growth of the process's peak.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from engines.reading import Reader

LOGS = Path(__file__).parents[1] / "logs"
BLOCK_BYTES = 1 << 18

ACCESS = b'(APIServer pid=1) INFO:     127.0.0.1:5%04d - "POST /v1/completions HTTP/1.1" 200 OK\n'
STATS = (
    b"(APIServer pid=1) INFO 12-01 03:51:49 [loggers.py:259] Engine 000: Avg prompt throughput: "
    b"%d.3 tokens/s, Avg generation throughput: 23.2 tokens/s, Running: 1 reqs\n"
)
BATCH = (
    b"[2026-03-02 11:30:33 TP0] Decode batch. #running-req: 8, #token: %d, token usage: 0.10, "
    b"gen throughput (token/s): 812.22, #queue-req: 0\n"
    b"[2026-03-02 11:30:33 TP0] Prefill batch. #new-seq: 1, #new-token: 2048, #cached-token: 0\n"
)
DEBUG = b"(EngineCore pid=1) DEBUG 12-01 03:51:49 [x.py:2] Step %d took some time, nobody asked\n"

KINDS = {
    "vllm access and stats": ("201", ACCESS * 9 + STATS),
    "sglang batches": ("113", BATCH),
    "vllm debug lines": ("201", DEBUG),
    "vllm boot, repeated": ("201", b""),
    "sglang boot, repeated": ("113", b""),
}


def main() -> None:
    """Print one line for each kind of log."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scrape")
    parser.add_argument("--megabytes", type=int, default=200)
    size_bytes = parser.parse_args().megabytes * 1_000_000
    print(f"{'log':24} {'MB/s':>7} {'peak':>9}  read as")
    for name, (stem, lines) in KINDS.items():
        rate, growth, said = _read((LOGS / f"{stem}.log").read_bytes(), lines, size_bytes)
        print(f"{name:24} {rate:7.0f} {growth:5.0f} MiB  {said}")


def _read(boot: bytes, lines: bytes, size_bytes: int) -> tuple[float, float, str]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reader, spent, fed = Reader(), 0.0, 0
    for block in _blocks(boot, lines):
        begun = time.process_time()
        reader.feed(block)
        spent += time.process_time() - begun
        fed += len(block)
        if fed >= size_bytes:
            break
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    reading = reader.close()
    return fed / spent / 1e6, growth, f"{reading.engine}, {reading.outcome}"


def _blocks(boot: bytes, lines: bytes) -> Iterator[bytes]:
    yield boot
    for number in itertools.count():
        count = lines.count(b"%")
        piece = lines % tuple(number % 9999 for _ in range(count)) if lines else boot
        yield piece * (BLOCK_BYTES // len(piece) + 1)


if __name__ == "__main__":
    main()
