"""Results as an `exec` would have stored them, written by hand through rows and store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.secrets import Redactor
from runner.stored.frames import Results, results
from runner.stored.store import Run, Store

FILE = """
question = "How much do figures move when nothing changes but the start of the server?"
boots = 3
[common]
model = "Qwen/Qwen3-1.7B"
[engines.vllm]
simulate = {}
[engines.sglang]
simulate = {}
[[loads]]
workload = "random"
input_tokens = 512
output_tokens = 128
concurrency = 64
requests = 256
"""


@dataclass
class Stored:
    """One run that is written boot by boot.

    Attributes:
        folder: the results.
        name: the experiment.
        file: the experiment file as it was.
        night: the night it belongs to.
        content_id: what it answers; runs of one second are told apart by it.
    """

    folder: Path
    name: str = "restarts"
    file: str = FILE
    night: str | None = None
    content_id: str = "c0ffee"
    cells: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run: Run = Store(self.folder, self.name).new_run(
            self.content_id, self.file, self.night
        )

    def cell(self, label: str, **columns: Any) -> str:
        """Add a cell named by its engine and axes; return its id."""
        engine = label.split(" ", maxsplit=1)[0]
        cell_id = f"{engine}-{len(self.cells)}"
        row = {
            "cell_id": cell_id,
            "label": label,
            "name": engine,
            "engine": engine,
            "model": "Qwen/Qwen3-1.7B",
            "settings": json.dumps(columns.pop("settings", {})),
            "resolved": "{}",
            "gpus": 1,
            "simulated": False,
            "rehearsal": False,
            "inapplicable": [],
        }
        self.cells.append(row | columns)
        self.run.put_cells(self.cells)
        return cell_id

    def boot(
        self,
        cell_id: str,
        boot: int,
        loads: Sequence[Mapping[str, Any]] = (),
        facts: Sequence[Mapping[str, Any]] = (),
        requests: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        capacity: Sequence[Mapping[str, Any]] = (),
        **columns: Any,
    ) -> None:
        """Store a boot with its loads, by default a good one."""
        desk = self.run.desk(cell_id, boot)
        keys = desk.key.columns
        row = {**keys, "block": boot, "order": boot, **self._boot(columns)}
        desk.begin(row)
        for order, load in enumerate(loads):
            sent = (requests or {}).get(str(load["load"]), ())
            held = {"load": load["load"], "repeat": load.get("repeat", 0)}
            desk.add_load(
                {**self._load(load), **keys, "order": order},
                [{**keys, **held, "warmup": False, "outcome": "ok", **one} for one in sent],
            )
        told = [{**keys, "source": "log", "rank": "", **fact} for fact in facts]
        found = [{**keys, **one} for one in capacity]
        desk.commit(row, {"facts": told, "capacity": found}, Redactor(()))

    def read(self) -> Results:
        """Return what was stored."""
        return results(self.folder / self.name)

    def _boot(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        usual = {
            "outcome": "done",
            "expected": True,
            "ready_s": 40.0,
            "create_s": 1.0,
            "load_s": 60.0,
            "stop_s": 4.0,
            "chunk_tokens": 2048,
            "max_running": 64,
            "compile_cache": "warm",
            "build_id": "b0",
            "host": "a box",
            "gpu_names": ["NVIDIA H100"],
            "night": self.night,
            "simulated": False,
            "rehearsal": False,
            "doubts": [],
        }
        return {**usual, **columns}

    def _load(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        usual = {
            "repeat": 0,
            "workload": str(columns["load"]).partition("@")[0],
            "level_kind": "concurrency",
            "level": float(str(columns["load"]).partition("@c")[2] or 1),
            "requests": 256,
            "ok": 256,
            "input_tokens": 256 * 512,
            "output_tokens": 256 * 128,
            "itl_count": 256 * 127,
            "verdict": "ok",
            "doubts": [],
        }
        return {**usual, **columns}


def the_example(folder: Path, name: str = "restarts") -> Results:
    """Return the restarts of the article: one slow first start of vLLM, three equal ones of SGLang.

    What SGLang streamed at this level is not given.
    """
    stored = Stored(folder, name)
    vllm = stored.cell("vllm", settings={"memory": {"fraction": 0.85}})
    sglang = stored.cell("sglang", settings={"memory": {"fraction": 0.8}})
    starts = [(22048, 792.0, 5.7), (26560, 842.0, 2.1), (26560, 843.0, 2.2)]
    for boot, (kv_tokens, rate, ttft_s) in enumerate(starts):
        load = {"load": "random@c64", "output_tokens_per_s": rate, "ttft_p50_s": ttft_s}
        stored.boot(vllm, boot, [load], kv_tokens=kv_tokens)
        stored.boot(sglang, boot, [{"load": "random@c64", "ttft_p50_s": 4.0}], kv_tokens=25282)
    return stored.read()
