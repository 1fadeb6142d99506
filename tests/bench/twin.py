"""The simulated engine served and offline, held against each other: `python -m tests.bench.twin`.

The same experiment runs twice: with servers, sockets and the measuring client, and as an event
simulation. They agree on a figure when the offline one lies in the served load's own spread: where
one more served repeat would lie in 95 of 100 cases, from Student's t over the repeats, and a
millisecond that sockets and two processes take from each request, which offline there are none of.
Waits are compared by their means: where requests come in waves a median TTFT is of one wave or of
the next by chance, so that its spread would hold anything.
"""

from __future__ import annotations

import itertools
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Final

import pandas as pd
from scipy.stats import t as student

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
requests = { per_stream = 3, at_least = 12 }
repeats = 3
[[loads]]
workload = "shared_prefix"
prefixes = 2
prefix_tokens = 2000
suffix_tokens = 32
output_tokens = 8
concurrency = 1
requests = 20
repeats = 3
"""
SOCKETS_MS: Final = 1.0
"""What a request takes longer through sockets: 0.9 ms at concurrency 1 on two shared cores."""
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
    """One figure of one load: offline, served (both medians of repeats), and the served spread."""

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
        for name in mine.columns:
            low, high = spread(list(theirs[name]))
            passage = SOCKETS_MS * _PASSES[name](float(theirs[name].median()), theirs)
            yield Pair(
                name=f"{engine} {load} {name}",
                offline=float(mine[name].median()),
                served=float(theirs[name].median()),
                low=low - passage,
                high=high + passage,
            )


_PASSES: Final[dict[str, Callable[[float, pd.DataFrame], float]]] = {
    "ttft mean ms": lambda value, own: 1.0,
    "e2e mean ms": lambda value, own: 1.0,
    "itl p50 ms": lambda value, own: 0.0,
    "output tok/s": lambda value, own: value / float(own["e2e mean ms"].median()),
}
"""How much a millisecond more of each request changes a figure."""


def spread(repeats: Sequence[float]) -> tuple[float, float]:
    """Return where one more repeat lies in 95 of 100 cases, if repeats scatter normally."""
    count = len(repeats)
    reach = float(student.ppf(0.975, count - 1)) * stdev(repeats) * math.sqrt(1 + 1 / count)
    return mean(repeats) - reach, mean(repeats) + reach


def _of(found: Results, engine: str, load: str) -> pd.DataFrame:
    """Return the figures of each repeat in each boot."""
    cells = set(found.cells[found.cells.engine == engine].cell_id)
    loads = found.loads[found.loads.cell_id.isin(cells) & (found.loads.load == load)]
    columns = {
        "ttft_mean_s": "ttft mean ms",
        "e2e_mean_s": "e2e mean ms",
        "itl_p50_s": "itl p50 ms",
    }
    figures = 1e3 * loads[[*columns]].rename(columns=columns)
    return figures.assign(**{"output tok/s": loads.output_tokens_per_s}).astype(float)


def main() -> int:
    """Print every pair; 0 when all agree."""
    with tempfile.TemporaryDirectory() as folder:
        found = list(pairs(*(run(Path(folder), offline=offline) for offline in (True, False))))
    sys.stdout.write(f"{'':<38}{'offline':>10}{'served':>10} {'spread':<24}{'ratio':>7}\n")
    sys.stdout.writelines(f"{pair.line}\n" for pair in found)
    return 0 if all(pair.agree for pair in found) else 1


if __name__ == "__main__":
    sys.exit(main())
