"""The simulated engine served and offline, held against each other: `python -m tests.bench.twin`.

The same experiment runs twice: with servers, sockets and the measuring client, and as an event
simulation. They agree on a figure when the offline median lies in the spread that the served load
itself has: between 5 and 95 % of its requests (of its gaps, for ITL); throughput in closed loop
follows the time of a request, so its spread is that of the requests' times.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from runner.experiment.read import read
from runner.experiment.stand_in import stood_in
from runner.load.floor import Floor
from runner.plan import expand
from runner.run import execute
from runner.stored.frames import Results, results
from runner.world import World

FILE: Final = """
question = "Do both simulations say the same?"
boots = 2
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 4096
max_running = 64
[engines.vllm]
simulate = { gpu = "laptop-8gb", startup_s = 0.1 }
memory = { fraction = 0.85 }
[engines.sglang]
simulate = { gpu = "laptop-8gb", startup_s = 0.1 }
memory = { fraction = 0.8 }
[[loads]]
workload = "random"
input_tokens = 256
output_tokens = 32
concurrency = [1, 8, 32]
requests = { per_stream = 3, at_least = 24 }
[[loads]]
workload = "shared_prefix"
prefixes = 2
prefix_tokens = 2000
suffix_tokens = 32
output_tokens = 8
concurrency = 1
requests = 20
"""
NO_FLOOR: Final = Floor(
    in_flight=0,
    ttft_error_p50_s=None,
    ttft_error_p99_s=None,
    itl_error_p50_s=None,
    itl_error_p99_s=None,
    output_tokens_per_s=None,
    cpu_per_token_s=None,
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One figure of one load: offline, served, and the served load's own spread."""

    name: str
    offline: float
    served: float
    low: float
    high: float

    @property
    def agree(self) -> bool:
        """Whether the offline figure lies in the served one's spread."""
        return self.low <= self.offline <= self.high

    @property
    def line(self) -> str:
        """The pair for a reader."""
        ratio = self.offline / self.served
        word = "ok" if self.agree else "APART"
        band = f"[{self.low:.4g} to {self.high:.4g}]"
        both = f"{self.offline:>10.4g}{self.served:>10.4g}"
        return f"{self.name:<38}{both} {band:<24}{ratio:>7.3f} {word}"


def run(folder: Path, *, offline: bool) -> Results:
    """Run the experiment with servers, or without."""
    path = folder / "both.toml"
    path.write_text(FILE)
    experiment = stood_in(read(path)) if offline else read(path)
    world = World(floor=lambda client: NO_FLOOR, nvml=lambda: None)
    name = "offline" if offline else "served"
    return results(execute(expand(experiment), world, folder / name).folder)


def pairs(offline: Results, served: Results) -> Iterator[Pair]:
    """Yield each figure of each load."""
    keys = itertools.product(dict.fromkeys(served.cells.engine), dict.fromkeys(served.loads.load))
    for engine, load in keys:
        mine, theirs = _of(offline, engine, load), _of(served, engine, load)
        for name in ("ttft", "e2e", "itl"):
            own = theirs[name]
            low, high = np.quantile(own, [0.05, 0.95])
            yield Pair(
                name=f"{engine} {load} {name} p50 ms",
                offline=median(mine[name]),
                served=median(own),
                low=float(low),
                high=float(high),
            )
        low, high = np.quantile(theirs["e2e"], [0.05, 0.95]) / median(theirs["e2e"])
        rate = theirs["rate"]
        yield Pair(
            name=f"{engine} {load} output tok/s",
            offline=mine["rate"],
            served=rate,
            low=rate / float(high),
            high=rate / float(low),
        )


def _of(found: Results, engine: str, load: str) -> dict[str, Any]:
    cells = set(found.cells[found.cells.engine == engine].cell_id)
    loads = found.loads[found.loads.cell_id.isin(cells) & (found.loads.load == load)]
    rows = found.requests[found.requests.cell_id.isin(cells) & (found.requests.load == load)]
    rows = rows[~rows.warmup & (rows.outcome == "ok")]
    gaps = [np.diff(chunks) / 1e6 for chunks in rows.chunk_ns]
    return {
        "rate": float(loads.output_tokens_per_s.median()),
        "ttft": list((rows.first_ns - rows.sent_ns) / 1e6),
        "e2e": list((rows.last_ns - rows.sent_ns) / 1e6),
        "itl": list(np.concatenate(gaps)),
    }


def main() -> int:
    """Print every pair; 0 when all agree."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(pairs(*(run(Path(folder), offline=offline) for offline in (True, False))))
    sys.stdout.write(f"{'':<38}{'offline':>10}{'served':>10} {'spread':<24}{'ratio':>7}\n")
    sys.stdout.writelines(f"{pair.line}\n" for pair in found)
    return 0 if all(pair.agree for pair in found) else 1


if __name__ == "__main__":
    sys.exit(main())
