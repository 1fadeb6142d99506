"""The golden server as a process of its own, and requests for it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.load import Ask, Target, Timeline, shard
from runner.load.golden import Every, Plan

_ROOT: Final = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """A running golden server."""

    port: int
    file: Path
    host: str = "127.0.0.1"

    def target(self, path: str = "/v1/completions") -> Target:
        """Return where a load goes."""
        return Target(host=self.host, port=self.port, path=path)

    def truth(self) -> Iterator[Timeline]:
        """Yield what really happened, once the server has ended.

        `request` is the number a request carried (see `golden_ask`), `sent_ns` when the kernel
        received it, `chunk_ns` when each chunk was sent.
        """
        return shard.read(self.file)


@contextlib.contextmanager
def served(
    plan: Plan, truth: Path, *, everys: Sequence[Every] = (), cpu: int | None = None, seed: int = 0
) -> Iterator[Golden]:
    """Run a golden server for as long as the context lasts; `truth` is its file."""
    words = ["--plan", json.dumps(dataclasses.asdict(plan)), "--truth", str(truth)]
    words += ["--seed", str(seed), *([] if cpu is None else ["--cpu", str(cpu)])]
    for every in everys:
        words += ["--every", f"{every.nth}={json.dumps(dict(every.changes))}"]
    server = subprocess.Popen(
        [sys.executable, "-m", "runner.load.golden", *words],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    try:
        line = server.stdout.readline() if server.stdout else b""
        if not line.strip().isdigit():
            raise OSError(f"the golden server did not start (exit code {server.wait(10)})")
        yield Golden(port=int(line), file=truth)
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout:
            server.stdout.close()


def golden_ask(
    number: int,
    *,
    output_tokens: int,
    input_tokens: int = 32,
    changes: Mapping[str, object] | None = None,
    group: str = "",
    due_s: float | None = None,
    chat: bool = False,
    usage: bool = True,
    continuous: bool = True,
) -> Ask:
    """Return a request for a golden server, with its own changes to the server's plan."""
    body: dict[str, object] = {
        "model": "golden",
        "max_tokens": output_tokens,
        "stream": True,
        "golden_request": number,
        "golden": dict(changes or {}),
    }
    if usage:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": continuous}
    if chat:
        body["messages"] = [{"role": "user", "content": " ".join(["tok"] * input_tokens)}]
    else:
        body["prompt"] = list(range(input_tokens))
    return Ask(
        body=json.dumps(body, separators=(",", ":")).encode(),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        group=group,
        due_s=due_s,
    )
