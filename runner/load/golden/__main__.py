"""`python -m runner.load.golden`: serve, print the port, write the truth."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from runner.load.golden import Every, Plan
from runner.load.golden.server import Server
from runner.load.priority import be_prompt


def main(words: Sequence[str] | None = None) -> None:
    """Serve until SIGTERM, SIGINT or the end of the parent process."""
    args = _parser().parse_args(words)
    if args.cpu is not None:
        os.sched_setaffinity(0, {args.cpu})
    be_prompt()
    plan = Plan().but(json.loads(args.plan))
    everys = tuple(_every(text) for text in args.every)
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.append(1))
    sock = socket.create_server((args.host, args.port), backlog=4096)
    with contextlib.ExitStack() as stack:
        truth = stack.enter_context(Path(args.truth).open("wb")) if args.truth else None
        server = Server(sock, plan, everys, args.seed, truth)
        gc.collect()
        gc.freeze()
        gc.disable()
        sys.stdout.write(f"{sock.getsockname()[1]}\n")
        sys.stdout.flush()
        parent = os.getppid()
        server.serve(lambda: bool(ended) or os.getppid() != parent)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m runner.load.golden",
        description="Serve tokens at known times; the port is the first line printed.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cpu", type=int, help="core to run on")
    parser.add_argument("--seed", type=int, default=0, help="seed of the jitter")
    parser.add_argument("--truth", help="file for what really happened")
    parser.add_argument("--plan", default="{}", help='JSON, as {"ttft_s": 0.1, "itl_s": 0.01}')
    parser.add_argument(
        "--every",
        action="append",
        default=[],
        metavar="N=JSON",
        help='change every N-th request, as 10={"status": 500}; may be repeated',
    )
    return parser


def _every(text: str) -> Every:
    nth, _, changes = text.partition("=")
    return Every(nth=int(nth), changes=json.loads(changes))


if __name__ == "__main__":
    main()
