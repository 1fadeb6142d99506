"""Nights of the simulated engine, through real processes: a slowdown is called, equality is not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.experiment.night import read_night
from runner.launchers import NO_PULL, Image, Launch, Launcher, Pulling, Server
from runner.load.floor import Floor
from runner.nights.nightly import nightly
from runner.nights.page import Page, page_of
from runner.world import World, launcher_of

EXPERIMENT = """
question = "Does it hold?"
boots = 5
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8
memory = { kv_tokens = 8192 }
[engines.vllm]
simulate = { gpu = "laptop-8gb", startup_s = 0.1 }
[[loads]]
workload = "random"
input_tokens = 32
output_tokens = 12
concurrency = 2
requests = 4
warmup = 0
"""
PINNED_SEED = 1
SLOW = 6.0
"""Steps this much longer: what other programs of the machine take is then little beside them."""
NIGHT = f"""
experiments = ["one.toml"]
[reference]
engine = "vllm"
version = "0.31.0"
simulate = {{ gpu = "laptop-8gb", startup_s = 0.1, seed = {PINNED_SEED} }}
"""
NO_FLOOR = Floor(
    in_flight=0,
    ttft_error_p50_s=None,
    ttft_error_p99_s=None,
    itl_error_p50_s=None,
    itl_error_p99_s=None,
    output_tokens_per_s=None,
    cpu_per_token_s=None,
)


@dataclass
class Paced:
    """A launcher whose simulated servers are as slow as it is told; all else is as it is."""

    inner: Launcher
    slowdown: Callable[[dict[str, Any]], float]

    def resolve(self, image: str, pulling: Pulling = NO_PULL) -> Image:
        return self.inner.resolve(image)

    def start(self, launch: Launch, log: Path) -> Server:
        place = launch.argv.index("--simulate") + 1
        asked: dict[str, Any] = json.loads(launch.argv[place])
        asked["slowdown_ratio"] = self.slowdown(asked)
        words = (*launch.argv[:place], json.dumps(asked), *launch.argv[place + 1 :])
        return self.inner.start(replace(launch, argv=words), log)


def a_night(folder: Path, name: str, *, slowdown: float = 1.0) -> Page:
    """Run a night that moves all by 2 %, boots vary by 1 %; the pinned cell is never slowed."""

    def drawn(asked: dict[str, Any]) -> float:
        pinned = asked.get("seed") == PINNED_SEED
        moved = 1 + random.Random(f"{name}/night").gauss(0, 0.02)
        own = 1 + random.Random(f"{name}/{asked['boot']}/{pinned}").gauss(0, 0.01)
        return SLOW * moved * own * (1.0 if pinned else slowdown)

    (folder / "one.toml").write_text(EXPERIMENT)
    (folder / "night.toml").write_text(NIGHT)
    world = World(
        launcher=lambda kind: Paced(launcher_of(kind), drawn), floor=lambda client: NO_FLOOR
    )
    night = read_night(folder / "night.toml")
    shares = nightly(night, world, folder / "results", name=name)
    return page_of(shares, night.keys, folder / "results", name)


def test_a_slowdown_of_10_percent_is_called_and_an_equal_night_is_not(tmp_path: Path) -> None:
    a_night(tmp_path, "n1")
    equal = a_night(tmp_path, "n2")
    slow = a_night(tmp_path, "n3", slowdown=1.1)
    assert "REGRESSION" not in equal.headline
    assert "REGRESSION: one: vllm random@c2" in slow.headline
    assert slow.exit_code == 1
    assert "SIMULATED" in slow.head
