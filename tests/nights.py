"""Nights whose boots are stored at once, as fast as a test tells."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner.errors import HostError
from runner.experiment.night import read_night
from runner.nights.nightly import nightly
from runner.nights.page import Page, page_of
from runner.plan import Plan
from runner.plan.rows import cell_rows
from runner.run import NightPart
from runner.stored.store import Store
from runner.summary import Summary
from runner.world import World
from tests.stored import Stored

EXPERIMENT = """
question = "Does it hold?"
boots = {boots}
[common]
model = "Qwen/Qwen3-1.7B"
memory = {{ kv_tokens = 60000 }}
[engines.vllm]
simulate = {{}}
[[loads]]
workload = "random"
input_tokens = 512
output_tokens = 128
concurrency = 64
requests = 256
"""
PINNED = '[reference]\nengine = "vllm"\nversion = "0.31.0"\nsimulate = {}\n'
Speed = Callable[[str, str, int], float]
"""(night, label, block) -> how fast a boot is."""


class Box:
    """Stands in for `execute`: stores boots at once, as fast as it is told."""

    def __init__(self, speed: Speed = lambda night, label, block: 1.0) -> None:
        self.speed = speed
        self.ran: list[tuple[str, int]] = []
        self.columns: dict[str, Any] = {}
        self.refused: set[str] = set()

    def execute(
        self,
        plan: Plan,
        world: World,
        results: Path,
        *,
        watch: Any = None,
        part: NightPart | None = None,
    ) -> Summary:
        assert part is not None
        experiment = plan.experiment.name
        if experiment in self.refused:
            raise HostError("the image is missing; pull it")
        store = Store(results, experiment)
        text = plan.experiment.path.read_text()
        stored = Stored.__new__(Stored)
        stored.night = part.night
        stored.run = store.latest(plan.content_id, part.night) or store.new_run(
            plan.content_id, text, part.night
        )
        stored.run.put_cells(cell_rows(plan))
        done = {(row["cell_id"], row["boot"]) for row in stored.run.boots()}
        missing = [boot for boot in plan.boots if boot.block in part.blocks]
        missing = [boot for boot in missing if (boot.cell.cell_id, boot.boot) not in done]
        for boot in missing:
            rate = 800 * self.speed(part.night, boot.cell.label, boot.block)
            load = {"load": "random@c64", "output_tokens_per_s": rate}
            usual = {"kv_tokens": 60_000, **self.columns}
            stored.boot(boot.cell.cell_id, boot.boot, [load], **usual)
        self.ran += [(experiment, block) for block in dict.fromkeys(b.block for b in missing)]
        return Summary(
            folder=store.folder,
            run_id=stored.run.run_id,
            started=len(missing),
            stored=len(stored.run.boots()),
            total=len(plan.boots),
            unexpected=0,
            void_loads=0,
        )


def written(folder: Path, *names: str, boots: int = 5, pinned: bool = True) -> Path:
    for name in names:
        (folder / f"{name}.toml").write_text(EXPERIMENT.format(boots=boots))
    listed = ", ".join(f'"{name}.toml"' for name in names)
    (folder / "night.toml").write_text(f"experiments = [{listed}]\n{PINNED if pinned else ''}")
    return folder / "night.toml"


def nights_before(file: Path, names: list[str]) -> None:
    """Run nights whose pages nobody reads."""
    night = read_night(file)
    for name in names:
        nightly(night, World(), file.parent / "results", name=name)


def a_night(file: Path, name: str, **options: Any) -> Page:
    night = read_night(file)
    results = file.parent / "results"
    shares = nightly(night, World(), results, name=name, **options)
    return page_of(shares, night.keys, results, name)


def noisy(night_sd: float, boot_sd: float, slow: dict[str, float] | None = None) -> Speed:
    """Return boots that a night moves together and that vary by themselves."""

    def speed(night: str, label: str, block: int) -> float:
        moved = 1 + random.Random(f"{night}/night").gauss(0, night_sd)
        own = 1 + random.Random(f"{night}/{label}/{block}").gauss(0, boot_sd)
        factor = (slow or {}).get(night, 1.0) if label != "reference" else 1.0
        return moved * own * factor

    return speed
