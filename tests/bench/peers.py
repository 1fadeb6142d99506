"""Load clients that are measured side by side: ours, vLLM's and SGLang's two.

Each drives a golden server and says what it believes; a `Claim` holds that beside the truth. The
engines' own clients run from the images that `tests/real/build-images` makes.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.load import Target
from runner.load.drive import Driven, drive
from runner.load.figures import Figures, figures
from runner.load.golden import Plan
from runner.load.golden.process import golden_ask, served
from tests.real.booting import IMAGES, MODEL

SERVER_CORE, CLIENT_CORE = 0, 1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a client believes to have seen, in seconds."""

    ttft_p50_s: float
    ttft_p99_s: float
    itl_p50_s: float
    itl_p99_s: float
    output_tokens_per_s: float
    ok: int
    worker_cpu_s: float | None = None
    held_ratio: float | None = None
    remaining_error_p99_s: float | None = None


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


class Cpu:
    """CPU seconds over time of this process, of clients, and of their descendants.

    Attributes:
        roots: processes to count; golden servers below them are left out.
    """

    def __init__(self) -> None:
        self.roots = {os.getpid()}
        self._seen: list[tuple[int, float]] = []

    def sample(self) -> None:
        self._seen.append((time.monotonic_ns(), sum(map(tree_cpu_s, tuple(self.roots)))))

    def between_s(self, from_ns: int, to_ns: int) -> float:
        inside = [cpu_s for at_ns, cpu_s in self._seen if from_ns <= at_ns <= to_ns]
        return inside[-1] - inside[0] if len(inside) > 1 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a client is asked to do."""

    port: int
    model: str
    streams: int
    requests: int
    input_tokens: int = 32
    output_tokens: int = 128
    host: str = "127.0.0.1"
    seed: int = 0
    cpu: Cpu = field(default_factory=Cpu)


Client = Callable[[Job], Claim]


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
            job = Job(
                port=golden.port,
                model="golden",
                streams=streams,
                requests=requests,
                output_tokens=tokens,
                cpu=cpu,
            )
            claim = client(job)
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


def ours(job: Job) -> Claim:
    """Drive with our client, its parser on the same core."""
    with tempfile.TemporaryDirectory(prefix="bench-spool-") as folder:
        driven = drive(
            target=Target(host=job.host, port=job.port, path="/v1/completions"),
            asks=(
                golden_ask(number, input_tokens=job.input_tokens, output_tokens=job.output_tokens)
                for number in range(job.requests)
            ),
            in_flight=job.streams,
            cpus=(CLIENT_CORE,),
            request_timeout_s=120.0,
            spool=Path(folder),
        )
        return claimed(driven)


def claimed(driven: Driven) -> Claim:
    """Return what our client believes."""
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
        output_tokens_per_s=found.output_tokens_per_s or 0.0,
        ok=found.ok,
        worker_cpu_s=sum(driven.proof.cpu_s),
        held_ratio=driven.proof.held_in_flight_ratio,
        remaining_error_p99_s=driven.proof.remaining_error_p99_s,
    )


def vllm(job: Job) -> Claim:
    """Drive with `vllm bench serve`."""
    command = [
        "vllm", "bench", "serve",
        "--backend", "openai", "--base-url", f"http://{job.host}:{job.port}",
        "--endpoint", "/v1/completions", "--model", job.model,
        "--tokenizer", str(MODEL), "--dataset-name", "random", "--seed", str(job.seed),
        "--random-input-len", str(job.input_tokens),
        "--random-output-len", str(job.output_tokens),
        "--num-prompts", str(job.requests), "--max-concurrency", str(job.streams), "--ignore-eos",
        "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99",
        "--save-result", "--result-dir", "/bench", "--result-filename", "claim.json",
    ]  # fmt: skip
    said = json.loads(run(IMAGES["vllm"], command, job.cpu))
    return Claim(
        ttft_p50_s=said["p50_ttft_ms"] / 1e3,
        ttft_p99_s=said["p99_ttft_ms"] / 1e3,
        itl_p50_s=said["p50_itl_ms"] / 1e3,
        itl_p99_s=said["p99_itl_ms"] / 1e3,
        output_tokens_per_s=said["output_throughput"],
        ok=said["completed"],
    )


def sglang(job: Job) -> Claim:
    """Drive with SGLang's Python client."""
    return _sglang("sglang.benchmark.serving", job)


def sglang_rust(job: Job) -> Claim:
    """Drive with SGLang's Rust client."""
    return _sglang("sglang.benchmark.rust_client", job)


def _sglang(module: str, job: Job) -> Claim:
    command = [
        "python3", "-m", module, "--backend", "sglang-oai",
        "--base-url", f"http://{job.host}:{job.port}", "--model", job.model,
        "--tokenizer", str(MODEL), "--dataset-name", "random-ids", "--seed", str(job.seed),
        "--random-input-len", str(job.input_tokens),
        "--random-output-len", str(job.output_tokens), "--random-range-ratio", "1",
        "--num-prompts", str(job.requests), "--max-concurrency", str(job.streams),
        "--warmup-requests", "0", "--output-file", "/bench/claim.json",
    ]  # fmt: skip
    said = json.loads(run(IMAGES["sglang"], command, job.cpu).splitlines()[-1])
    return Claim(
        ttft_p50_s=said["median_ttft_ms"] / 1e3,
        ttft_p99_s=said["p99_ttft_ms"] / 1e3,
        itl_p50_s=said["median_itl_ms"] / 1e3,
        itl_p99_s=said["p99_itl_ms"] / 1e3,
        output_tokens_per_s=said["output_throughput"],
        ok=said["completed"],
    )


def run(image: str, command: list[str], cpu: Cpu) -> str:
    """Run a peer on the client's core and return its claim; what it said is shown when it fails."""
    name = f"runner-bench-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="bench-peer-") as folder:
        # SGLang's client imports the datasets library for data sets that are not used here
        Path(folder, "datasets.py").write_text("def __getattr__(name): return None\n")
        docker = [
            "docker", "run", "--rm", "--name", name, "--network", "host",
            "--cpuset-cpus", str(CLIENT_CORE), "--volume", f"{folder}:/bench",
            "--volume", f"{MODEL}:{MODEL}:ro", "--env", "PYTHONPATH=/bench", "--workdir", "/bench",
            "--entrypoint", "", image, *command,
        ]  # fmt: skip
        with subprocess.Popen(
            docker, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as client:
            cpu.roots.add(_main_process(name))
            said = client.communicate()[0]
        if client.returncode:
            raise RuntimeError(f"{command[:3]} ended with {client.returncode}: {said[-1500:]}")
        return Path(folder, "claim.json").read_text()


def _main_process(name: str) -> int:
    """Return the process number of a container's first process, as this machine counts."""
    asked = ["docker", "inspect", "--format", "{{.State.Pid}}", name]
    for _ in range(100):
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if said not in ("", "0"):
            return int(said)
        time.sleep(0.1)
    raise RuntimeError(f"container {name} did not start")


CLIENTS: dict[str, Client] = {
    "ours": ours,
    "vllm bench serve": vllm,
    "sglang serving.py": sglang,
    "sglang rust": sglang_rust,
}
