"""Prints what happens at the limits: a plan of 10,000 boots, a log of 500 MB.

    python -m tests.bench.limits

Times are this machine's; memory is the growth of the process's peak.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engines.reading import Reader
from runner.experiment.read import read
from runner.launchers.log import LogFile
from runner.plan import expand
from runner.plan.text import planned

LINE = b"(EngineCore pid=1) DEBUG 12-01 03:51:49 [x.py:2] Step 7 took some time, nobody asked %d\n"
LOG_BYTES = 500 << 20
FILE = """
question = "How long does a plan of 10,000 boots take?"
boots = 100
[common]
model = "m/m"
[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
[matrix]
engine = ["vllm"]
max_running = [{}]
chunk_tokens = [{}]
[[loads]]
workload = "random"
input_tokens = 8
output_tokens = 8
concurrency = 8
requests = 100
"""


def main() -> None:
    """Print a line for each limit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        measured("plan of 10,000 boots, printed", lambda: a_plan(folder))
        measured("log of 500 MB, written as it comes", lambda: a_log(folder))
        measured("the same log, read for facts", lambda: a_reading(folder / "log"))


def measured(what: str, act: Callable[[], str]) -> None:
    """Print how long something took and how far the memory's peak rose."""
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    said = act()
    took_s = time.monotonic() - began
    grew = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{what:<36}  {took_s:6.2f} s  +{grew:4.0f} MiB  {said}", flush=True)


def a_plan(folder: Path) -> str:
    """Read, expand and print a plan."""
    running = ", ".join(str(8 * number) for number in range(1, 11))
    chunks = ", ".join(str(256 * number) for number in range(1, 11))
    path = folder / "large.toml"
    path.write_text(FILE.format(running, chunks))
    plan = expand(read(path))
    return f"{len(plan.boots)} boots, {len(planned(plan, {})) >> 10} KiB of text"


def a_log(folder: Path) -> str:
    """Take output in pieces of 64 KiB, as a pipe brings them."""
    log, piece = LogFile(folder / "log"), LINE * (65536 // len(LINE))
    pieces = LOG_BYTES // len(piece)
    began = time.monotonic()
    for _ in range(pieces):
        log.take(piece)
    log.close()
    rate = pieces * piece.count(b"\n") / (time.monotonic() - began)
    return f"{rate / 1e6:.2f} million lines a second"


def a_reading(path: Path) -> str:
    """Read a log to its end."""
    reader, lines = Reader("vllm"), 0
    with path.open("rb") as log:
        while block := log.read(1 << 20):
            reader.feed(block)
            lines += block.count(b"\n")
    reader.close()
    return f"{lines} lines"


if __name__ == "__main__":
    main()
