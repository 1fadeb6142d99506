"""How long a report takes over many boots, and over many nights: python -m tests.bench.report.

Ten million requests of 2,000 boots in 20 s and 2 GB; 500 nights without one request file opened.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from runner.nights.history import earlier
from runner.report import report
from runner.stored import rows
from runner.stored.frames import results
from runner.tables.columns import wanted

BOOTS, CELLS, REQUESTS = 2_000, 20, 5_000
NIGHTS, NIGHT_BOOTS = 500, 5
FILE = """
question = "How long does it take?"
boots = 100
[common]
model = "Qwen/Qwen3-1.7B"
[engines.vllm]
simulate = {}
[[loads]]
workload = "random"
input_tokens = 512
output_tokens = 128
concurrency = 64
requests = 5000
"""


def written(
    folder: Path, table: str, run: str, part: str, content: Sequence[Mapping[str, Any]]
) -> None:
    path = folder / table / f"run={run}" / f"{part}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.to_arrow(table, content), path)


def cells(count: int) -> list[dict[str, Any]]:
    usual = {"name": "vllm", "engine": "vllm", "settings": "{}", "resolved": "{}", "gpus": 1}
    marks = {"simulated": False, "rehearsal": False, "inapplicable": []}
    return [
        {"cell_id": f"cell{number:03}", "label": f"vllm axis={number}", **usual, **marks}
        for number in range(count)
    ]


def boot_rows(cell: str, boot: int, draw: random.Random, night: str | None) -> Iterator[Any]:
    key = {"cell_id": cell, "boot": boot, "attempt": 1}
    usual = {"outcome": "done", "expected": True, "ready_s": 40.0, "compile_cache": "warm"}
    place = {"block": boot, "order": boot, "build_id": "b", "host": "h", "gpu_names": ["H100"]}
    marks = {"kv_tokens": 60_000, "night": night, "simulated": False, "rehearsal": False}
    yield "boots", [key | usual | place | marks | {"doubts": []}]
    yield (
        "facts",
        [
            key | {"name": f"fact_{n}", "value": str(n), "source": "log", "rank": ""}
            for n in range(40)
        ],
    )
    rate = 800 * (1 + draw.gauss(0, 0.01))
    load = {"load": "random@c64", "repeat": 0, "workload": "random", "level_kind": "concurrency"}
    counts = {"level": 64.0, "order": 0, "requests": REQUESTS, "ok": REQUESTS, "itl_count": 1000}
    tokens = {"input_tokens": 512 * REQUESTS, "output_tokens": 128 * REQUESTS, "duration_s": 60.0}
    figures = {"output_tokens_per_s": rate, "ttft_p50_s": 0.2, "verdict": "ok", "doubts": []}
    yield "loads", [key | load | counts | tokens | figures]


def requests_file(folder: Path) -> Path:
    """Write the requests of one boot; every other boot's file is the same one, linked."""
    key = {"cell_id": "cell000", "boot": 0, "attempt": 1, "load": "random@c64", "repeat": 0}
    times = {"sent_ns": 1, "first_ns": 2, "last_ns": 3, "ended_ns": 4, "stamp": "kernel"}
    chunks = {"chunk_ns": list(range(20)), "chunk_tokens": [1] * 20, "outcome": "ok"}
    content = [key | times | chunks | {"request": n, "warmup": False} for n in range(REQUESTS)]
    path = folder / "requests.parquet"
    pq.write_table(rows.to_arrow("requests", content), path)
    return path


def many_boots(folder: Path) -> None:
    run = "2026-12-01T00-00-00-c0ffee"
    note(folder, run, None)
    written(folder, "cells", run, "cells", cells(CELLS))
    draw, shared = random.Random(1), requests_file(folder)
    links = folder / "requests" / f"run={run}"
    links.mkdir(parents=True)
    for boot in range(BOOTS // CELLS):
        for cell in cells(CELLS):
            part = f"{boot:03d}-{cell['cell_id']}-a1"
            for table, content in boot_rows(cell["cell_id"], boot, draw, None):
                written(folder, table, run, part, content)
            os.link(shared, links / f"{part}.000.parquet")


def many_nights(folder: Path) -> str:
    draw, run = random.Random(2), ""
    for night in range(NIGHTS):
        run = f"2026-{night // 28 + 1:02}-{night % 28 + 1:02}T00-00-00-c0ffee"
        note(folder, run, f"n{night:03}")
        written(folder, "cells", run, "cells", cells(1))
        for boot in range(NIGHT_BOOTS):
            for table, content in boot_rows("cell000", boot, draw, f"n{night:03}"):
                written(folder, table, run, f"{boot:03d}-cell000-a1", content)
        requests = folder / "requests" / f"run={run}"
        requests.mkdir(parents=True)
        (requests / "000-cell000-a1.000.parquet").write_bytes(b"whoever opens this fails")
    return run


def note(folder: Path, run: str, night: str | None) -> None:
    path = folder / "runs" / f"{run}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"run": run, "content_id": "c0ffee", "began": "", "file": FILE, "night": night}
    path.write_text(json.dumps(said))


def timed(what: str, least: int, work: Any) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    found = work()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {took:.1f} s ({used:.1f} s of CPU), peak {peak:.0f} MiB")
    assert len(found) >= least


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as scratch:
        boots, nights = Path(scratch) / "boots", Path(scratch) / "nights"
        many_boots(boots)
        last = many_nights(nights)
        timed(
            f"report over {BOOTS} boots, {BOOTS * REQUESTS / 1e6:g} million requests",
            1000,
            lambda: report(results(boots, wanted=wanted)),
        )
        timed(
            f"{NIGHTS} nights: history of the last one",
            0,
            lambda: earlier(Path(scratch), "nights", last, "output_tokens_per_s").means,
        )
        read = results(nights, wanted=wanted)
        timed(f"{NIGHTS} nights side by side, report", 1000, lambda: report(read))
        assert read.unreadable == [], "a report opened a request file"


if __name__ == "__main__":
    main()
