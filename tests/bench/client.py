"""Prints what the load client promises, measured: errors, CPU, arrivals, faults, memory.

    python -m tests.bench.client [ROW ...] [--repeats 3] [--peers] [--seconds 5] [--prompt]

The golden server runs on core 0, clients on core 1; errors are what a client claims minus what
the server did, medians over repeats with their range. `--peers` runs vLLM's and SGLang's clients
beside ours (see peers.py). `--prompt` gives the whole bench a priority over its neighbours (root).
Exit code 1 when a figure of ours is outside its bound.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.client_accuracy import arrivals, busy, faults, streams
from tests.bench.client_capacity import ceiling, memory, prompts, start
from tests.bench.judged import Row, Settings

ROWS: dict[str, Callable[[Settings], Iterator[Row]]] = {
    "streams": streams,
    "busy": busy,
    "ceiling": ceiling,
    "arrivals": arrivals,
    "faults": faults,
    "prompts": prompts,
    "memory": memory,
    "start": start,
}


def main() -> int:
    """Print the table; return 1 when a bound is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.client")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of an open loop")
    parser.add_argument("--peers", action="store_true", help="run the peers beside ours")
    parser.add_argument("--prompt", action="store_true", help="take priority (root)")
    args = parser.parse_args()
    if args.prompt:
        os.setsid()
        Path("/proc/self/autogroup").write_text("-20")
        os.nice(-20)
    settings = Settings(repeats=args.repeats, peers=args.peers, seconds=args.seconds)
    broken = 0
    for name in args.rows or ROWS:
        for row in ROWS[name](settings):
            mark = {True: "ok", False: "BROKEN", None: ""}[row.kept]
            broken += row.kept is False
            print(f"{row.name:62} {row.found:44} {row.bound:18} {mark}", flush=True)
    print(f"{broken} figures outside their bounds; load average {os.getloadavg()[0]:.1f}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
