"""Load clients that are measured side by side: ours, vLLM's and SGLang's two.

Each drives a golden server and says what it believes; a `Claim` holds that beside the truth.
The engines' own clients run from the virtual environments that `local/vllm-cpu` and
`local/sglang-cpu` are built from: set RUNNER_PEERS to the folder that holds `vllm`, `sglang` and
a tokenizer in `tiny`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.load.drive import drive
from runner.load.figures import Figures, figures
from runner.load.golden import Plan
from runner.load.golden.process import Golden, golden_ask, served

PEERS = Path(os.environ.get("RUNNER_PEERS", "/var/tmp/real-engines"))
SERVER_CORE, CLIENT_CORE = 0, 1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a client believes to have seen, in seconds."""

    ttft_p50_s: float
    ttft_p99_s: float
    itl_p50_s: float
    itl_p99_s: float
    ok: int
    worker_cpu_s: float | None = None
    held_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One client against one golden server: what it claimed, and what was so."""

    claim: Claim
    truth: Figures
    tokens: int
    tokens_per_s: float
    cpu_s: float

    def errors_ms(self) -> tuple[float, float, float]:
        """Return how far TTFT p50, TTFT p99 and ITL p99 are off, in ms."""
        truth, claim = self.truth, self.claim
        pairs = (
            (claim.ttft_p50_s, truth.ttft.p50_s),
            (claim.ttft_p99_s, truth.ttft.p99_s or truth.ttft.max_s),
            (claim.itl_p99_s, truth.itl.p99_s or truth.itl.max_s),
        )
        first, second, third = ((said - (true or 0)) * 1e3 for said, true in pairs)
        return first, second, third


Client = Callable[[Golden, int, int, int], Claim]


def measured(
    client: Client, *, streams: int, requests: int, tokens: int = 128, plan: Plan | None = None
) -> Measured:
    """Let a client drive a golden server, each on its own core."""
    plan = plan or Plan(ttft_s=0.1, jitter_s=0.01, itl_s=0.01)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        with (
            served(plan, Path(folder, "truth"), cpu=SERVER_CORE) as golden,
            pinned(CLIENT_CORE),
            watched() as cpu,
        ):
            claim = client(golden, streams, requests, tokens)
        truths = [one for one in golden.truth() if len(one.chunk_ns) > 1]
        truths = truths[-requests:]
        opened_ns = min(one.sent_ns for one in truths)
        closed_ns = max(one.chunk_ns[-1] for one in truths)
        truth = figures(truths, opened_ns=opened_ns, closed_ns=closed_ns, steady=None)
    return Measured(
        claim=claim,
        truth=truth,
        tokens=truth.output_tokens,
        tokens_per_s=truth.output_tokens / (closed_ns - opened_ns) * 1e9,
        cpu_s=cpu.between_s(opened_ns, closed_ns),
    )


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep this process, and what it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Cpu:
    """CPU seconds of this process and its descendants over time, the golden server left out."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, float]] = []

    def sample(self) -> None:
        self._seen.append((time.monotonic_ns(), tree_cpu_s(os.getpid())))

    def between_s(self, from_ns: int, to_ns: int) -> float:
        inside = [cpu_s for at_ns, cpu_s in self._seen if from_ns <= at_ns <= to_ns]
        return inside[-1] - inside[0] if len(inside) > 1 else 0.0


@contextlib.contextmanager
def watched() -> Iterator[Cpu]:
    """Sample the CPU time used, five times a second."""
    cpu, ended = Cpu(), threading.Event()

    def watch() -> None:
        while not ended.wait(0.2):
            cpu.sample()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield cpu
    finally:
        ended.set()
        thread.join()


def tree_cpu_s(root: int) -> float:
    """Return the CPU seconds of a process and its living descendants, golden servers left out."""
    total_s, wanted = 0.0, [root]
    while wanted:
        folder = Path("/proc", str(wanted.pop()))
        with contextlib.suppress(OSError):
            if b"runner.load.golden" in (folder / "cmdline").read_bytes():
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            total_s += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            for children in folder.glob("task/*/children"):
                wanted += map(int, children.read_text().split())
    return total_s


def ours(golden: Golden, streams: int, requests: int, tokens: int) -> Claim:
    """Drive with our client, its parser on the same core."""
    with tempfile.TemporaryDirectory(prefix="bench-spool-") as folder:
        driven = drive(
            target=golden.target(),
            asks=(golden_ask(number, output_tokens=tokens) for number in range(requests)),
            in_flight=streams,
            cpus=(CLIENT_CORE,),
            request_timeout_s=120.0,
            spool=Path(folder),
        )
        found = figures(
            driven.timelines(),
            opened_ns=driven.opened_ns,
            closed_ns=driven.closed_ns,
            steady=driven.steady,
        )
    return Claim(
        ttft_p50_s=found.ttft.p50_s or 0.0,
        ttft_p99_s=found.ttft.p99_s or found.ttft.max_s or 0.0,
        itl_p50_s=found.itl.p50_s or 0.0,
        itl_p99_s=found.itl.p99_s or found.itl.max_s or 0.0,
        ok=found.ok,
        worker_cpu_s=sum(driven.proof.cpu_s),
        held_ratio=driven.proof.held_in_flight_ratio,
    )


def vllm(golden: Golden, streams: int, requests: int, tokens: int) -> Claim:
    """Drive with `vllm bench serve`."""
    with tempfile.TemporaryDirectory(prefix="bench-vllm-") as folder:
        command = [
            str(PEERS / "vllm/bin/vllm"), "bench", "serve",
            "--backend", "openai", "--base-url", f"http://127.0.0.1:{golden.port}",
            "--endpoint", "/v1/completions", "--model", "golden",
            "--tokenizer", str(PEERS / "tiny"), "--dataset-name", "random",
            "--random-input-len", "32", "--random-output-len", str(tokens),
            "--num-prompts", str(requests), "--max-concurrency", str(streams), "--ignore-eos",
            "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99",
            "--save-result", "--result-dir", folder, "--result-filename", "claim.json",
        ]  # fmt: skip
        run(command, Path(folder))
        said = json.loads(Path(folder, "claim.json").read_text())
    return Claim(
        ttft_p50_s=said["p50_ttft_ms"] / 1e3,
        ttft_p99_s=said["p99_ttft_ms"] / 1e3,
        itl_p50_s=said["p50_itl_ms"] / 1e3,
        itl_p99_s=said["p99_itl_ms"] / 1e3,
        ok=said["completed"],
    )


def sglang(golden: Golden, streams: int, requests: int, tokens: int) -> Claim:
    """Drive with SGLang's Python client."""
    return _sglang("sglang.benchmark.serving", golden, streams, requests, tokens)


def sglang_rust(golden: Golden, streams: int, requests: int, tokens: int) -> Claim:
    """Drive with SGLang's Rust client."""
    return _sglang("sglang.benchmark.rust_client", golden, streams, requests, tokens)


def _sglang(module: str, golden: Golden, streams: int, requests: int, tokens: int) -> Claim:
    with tempfile.TemporaryDirectory(prefix="bench-sglang-") as folder:
        output = Path(folder, "claim.jsonl")
        command = [
            str(PEERS / "sglang/bin/python"), "-m", module, "--backend", "sglang-oai",
            "--base-url", f"http://127.0.0.1:{golden.port}", "--model", "golden",
            "--tokenizer", str(PEERS / "tiny"), "--dataset-name", "random-ids",
            "--random-input-len", "32", "--random-output-len", str(tokens),
            "--random-range-ratio", "1", "--num-prompts", str(requests),
            "--max-concurrency", str(streams), "--warmup-requests", "0",
            "--output-file", str(output),
        ]  # fmt: skip
        run(command, Path(folder))
        said = json.loads(output.read_text().splitlines()[-1])
    return Claim(
        ttft_p50_s=said["median_ttft_ms"] / 1e3,
        ttft_p99_s=said["p99_ttft_ms"] / 1e3,
        itl_p50_s=said["median_itl_ms"] / 1e3,
        itl_p99_s=said["p99_itl_ms"] / 1e3,
        ok=said["completed"],
    )


def run(command: list[str], folder: Path) -> None:
    """Run a peer; what it said is shown when it fails."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "SGLANG_USE_CPU_ENGINE": "1",
        "PYTHONPATH": f"{PEERS / 'extra/opt/shim'}:{folder}",
    }
    # SGLang's client imports the datasets library for data sets that are not used here
    (folder / "datasets.py").write_text("def __getattr__(name): return None\n")
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    if ended.returncode:
        raise RuntimeError(f"{command[:3]} ended with {ended.returncode}: {ended.stderr[-1500:]}")


CLIENTS: dict[str, Client] = {
    "ours": ours,
    "vllm bench serve": vllm,
    "sglang serving.py": sglang,
    "sglang rust": sglang_rust,
}
