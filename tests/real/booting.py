"""Boots real vLLM and SGLang on a CPU as the product does, for tests and benchmarks."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from engines import Fact, Sampling
from engines.reading import Reader, Reading
from runner.boots import pages
from runner.boots.growing import GrowingLog
from runner.boots.ready import wait_until_ready
from runner.experiment.read import read
from runner.launchers.container import DockerServer
from runner.launchers.docker import DockerLauncher
from runner.plan import Plan, expand
from runner.plan.cells import Cell
from runner.plan.launch import Circumstances, launch_of

IMAGES = {"vllm": "local/vllm-cpu:0.32.0", "sglang": "local/sglang-cpu:0.5.23"}
MODEL = Path("/var/tmp/real-engines/tiny")

EXPERIMENT = """
question = "Does what we know of this engine hold?"
boots = 1

[common]
model = "{model}"
context_tokens = 2048
max_running = {max_running}
chunk_tokens = 256
prefix_cache = true
memory = {{ kv_tokens = 20480 }}
graphs = false
gpus = 0
shm_bytes = 1073741824
{keys}

[engines.{engine}]
image = "{image}"

[[loads]]
workload = "random"
input_tokens = 128
output_tokens = 16
concurrency = 4
requests = 24
warmup = {{ per_stream = 1 }}

[cache]
compile = "none"
"""


@dataclass(frozen=True, kw_only=True)
class Booted:
    """A real engine that serves.

    Attributes:
        name: of its container.
        plan: the experiment it was booted for.
        server: its container.
        log: the file that its output goes to.
    """

    name: str
    plan: Plan
    server: DockerServer
    log: Path

    @property
    def cell(self) -> Cell:
        """The only cell of its experiment."""
        return self.plan.cells[0]

    def facts(self, name: str) -> dict[str, Fact]:
        """Return what each source says of a fact: its first statement, which is the server's."""
        stated = pages.stated(self.cell.engine, self.server.control_url)
        said = [*self.logged().facts, *stated.facts]
        return {fact.source: fact for fact in reversed(said) if fact.name == name}

    def logged(self) -> Reading:
        """Return what its log says until now."""
        reader = Reader(self.cell.engine.name)
        reader.feed(self.log.read_bytes())
        return reader.close()

    def counters(self) -> dict[str, float]:
        """Return its running totals now."""
        return pages.counters(self.cell.engine, self.server.control_url)

    def flush(self) -> bool | None:
        """Empty its prefix cache."""
        return pages.flush(self.cell.engine, self.server.control_url)

    def complete(self, prompt: Sequence[int], output_tokens: int) -> dict[str, Any]:
        """Send one prompt of token ids; return the usage that the stream ends with."""
        engine, url = self.cell.engine, self.server.control_url
        body = engine.completion(self.cell.served_name, prompt, output_tokens, Sampling())
        answer = httpx.post(url + engine.completions_path, json=body, timeout=120)
        answer.raise_for_status()
        events = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        usage = [json.loads(event)["usage"] for event in events if '"usage":{' in event]
        last: dict[str, Any] = usage[-1]
        return last


@contextlib.contextmanager
def booting(
    engine: str, folder: Path, *, max_running: int = 16, keys: str = ""
) -> Iterator[Booted]:
    """Boot one engine with a tiny model; it serves for as long as the context lasts.

    Args:
        engine: key of `IMAGES`.
        folder: where its experiment and its log go.
        max_running: requests it runs at once.
        keys: more keys of its cell, as TOML.
    """
    file = folder / "real.toml"
    words = {"engine": engine, "image": IMAGES[engine], "model": MODEL}
    file.write_text(EXPERIMENT.format(**words, max_running=max_running, keys=keys))
    plan = expand(read(file))
    cell = plan.cells[0]
    name = f"runner-real-{uuid.uuid4().hex[:12]}"
    now = Circumstances(port=cell.engine.port, name=name, labels={"runner.test": name})
    log = folder / "server.log"
    server = DockerLauncher().start(launch_of(cell, now), log)
    try:
        ready = wait_until_ready(
            server,
            engine=cell.engine,
            model=cell.served_name,
            timeout_s=600,
            log=GrowingLog(log, cell.engine.name),
        )
        assert ready.cause is None, f"{ready.message}\n{log.read_text()[-4000:]}"
        assert not ready.unsaid, "it serves, but its log does not say ready"
        yield Booted(name=name, plan=plan, server=server, log=log)
    finally:
        server.remove()
