"""What one simulated server streams, on a core of its own: `python -m tests.bench.streaming`.

640 streams at 100 tokens/s each, in real time, read by our own client on the other core. Where
others compete for the cores, what is delivered falls short of what the server's own CPU time a
token leaves room for.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx

import engines
from engines import Sampling
from runner.launchers.process import free_port
from runner.load import Ask, Target
from runner.load.drive import Driven, drive
from runner.load.figures import Figures, figures
from tests.bench.judged import Row, at_least
from tests.bench.peers import CLIENT_CORE, SERVER_CORE

STREAMS: Final = 640
STEP_S: Final = 0.01
LEAST_PER_S: Final = 50_000
OUTPUT_TOKENS: Final = 1500
MODEL: Final = "Qwen/Qwen3-1.7B"
GPU: Final = f"""
name = "a GPU that is never the limit"
memory_bytes = 400_000_000_000
bandwidth_bytes_per_s = 1e16
flops_per_s = 1e19
attention_flops_per_s = 1e19
noise_ratio = 0.0
[engines.vllm]
step_s = {STEP_S}
[engines.sglang]
step_s = {STEP_S}
"""
FLAGS: Final = {
    "vllm": ["--model", MODEL, "--max-num-seqs", f"{STREAMS}", "--max-model-len", "2048"],
    "sglang": [
        "--model-path",
        MODEL,
        "--max-running-requests",
        f"{STREAMS}",
        "--context-length",
        "2048",
    ],
}


@contextlib.contextmanager
def serving(engine: str, folder: Path) -> Iterator[tuple[int, int]]:
    """Serve on a core of its own; yield the port and the process."""
    gpu, port = folder / "gpu.toml", free_port()
    gpu.write_text(GPU)
    simulate = json.dumps({"gpu": str(gpu), "startup_s": 0.1, "boot": 1})
    argv = [sys.executable, "-m", "engines.sim", engine, "--simulate", simulate, *FLAGS[engine]]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([*argv, "--port", str(port)], stdout=log, stderr=log) as server,
    ):
        try:
            os.sched_setaffinity(server.pid, {SERVER_CORE})
            _await(port)
            yield port, server.pid
        finally:
            server.terminate()


def _await(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success:
                return
        time.sleep(0.05)
    raise RuntimeError("the simulated server does not answer")


def cpu_s(pid: int) -> float:
    """Return the CPU seconds a process has used."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def asks(engine: str, count: int) -> Iterator[Ask]:
    """Yield requests as the runner would send them."""
    speaks = engines.get(engine)
    for number in range(count):
        prompt = tuple(range(100 + number, 116 + number))
        body = speaks.completion(MODEL, prompt, OUTPUT_TOKENS, Sampling())
        yield Ask(body=json.dumps(body).encode(), output_tokens=OUTPUT_TOKENS)


def streamed(engine: str, folder: Path) -> tuple[Driven, Figures, float]:
    """Run the load; return it, its figures, and the server's CPU time a token."""
    with serving(engine, folder) as (port, pid):
        before_s = cpu_s(pid)
        driven = drive(
            target=Target(host="127.0.0.1", port=port, path="/v1/completions"),
            asks=asks(engine, STREAMS),
            in_flight=STREAMS,
            cpus=(CLIENT_CORE,),
            request_timeout_s=120,
            spool=folder / "spool",
        )
        used_s = cpu_s(pid) - before_s
    found = figures(
        driven.timelines(),
        opened_ns=driven.opened_ns,
        closed_ns=driven.closed_ns,
        steady=driven.steady,
    )
    return driven, found, used_s / max(found.output_tokens, 1)


def rows(engine: str) -> Iterator[Row]:
    """Yield what one engine's server streams."""
    with tempfile.TemporaryDirectory() as folder:
        driven, found, cpu_per_token_s = streamed(engine, Path(folder))
    name = f"{engine}, {STREAMS} streams"
    yield Row(name=f"{name}: asked", found=f"{STREAMS / STEP_S:.0f} tokens/s")
    yield Row(name=f"{name}: answered", found=f"{found.ok} of {found.requests} requests")
    yield Row(name=f"{name}: server CPU", found=f"{cpu_per_token_s * 1e6:.1f} µs a token")
    most = 1 / cpu_per_token_s
    yield at_least(f"{name}: that a core bears", [most], LEAST_PER_S, "tokens/s")
    client = (driven.proof.cpu_per_token_s or 0.0) * 1e6
    yield Row(name=f"{name}: client CPU", found=f"{client:.1f} µs a token")
    yield Row(name=f"{name}: ITL p50", found=f"{(found.itl.p50_s or 0) * 1e3:.2f} ms")
    delivered = found.steady_output_tokens_per_s or 0.0
    yield at_least(f"{name}: delivered", [delivered], LEAST_PER_S, "tokens/s")


def main() -> int:
    """Print the rows; 0 when both engines deliver enough."""
    missed = False
    for engine in FLAGS:
        for row in rows(engine):
            word = {None: "", True: "ok", False: "MISSED"}[row.kept]
            missed = missed or row.kept is False
            sys.stdout.write(f"{row.name:<38} {row.found:<26} {row.bound:<20} {word}\n")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
