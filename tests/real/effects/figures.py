"""Stored rows of one rehearsal as the frames that `judged` takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from runner.figures.hits import hits
from runner.figures.latency import gaps_ns, served
from runner.figures.shared_prefix import first_and_later
from runner.figures.structured import validity
from runner.load import Timeline
from runner.stored.frames import Results
from runner.tables.declared import declared
from runner.tables.measured import complete, measured, records
from runner.tables.runs import runs_of
from runner.workloads.interference import INJECTED, VICTIM

Row = Mapping[str, Any]
USUAL_BLOCK_TOKENS = {"vllm": 16, "sglang": 1}
"""What the prefix cache counts in where a server does not say it."""


def boots(results: Results) -> pd.DataFrame:
    """Return every boot that the plan asks for, failed ones too, with its cell's engine."""
    columns = ["cell_id", "engine", "label", "stage", "expected_outcome", "expected_cause"]
    cells = results.cells[columns].rename(
        columns={"expected_outcome": "ends", "expected_cause": "because"}
    )
    last = results.boots[results.boots.boot >= 0].sort_values("attempt")
    own = last.drop_duplicates(["cell_id", "boot"], keep="last").merge(cells, on="cell_id")
    return own.assign(cause=own.cause.fillna(""))


def prefix(results: Results) -> pd.DataFrame:
    """Return later over first TTFT of each boot; a void load's times are none."""

    def figures(row: Row, timelines: list[Timeline]) -> Iterator[Row]:
        if row["verdict"] != "void":
            yield {"later_over_first": first_and_later(timelines).saved_ratio}

    return _of_loads(results, "shared_prefix", figures, ["later_over_first"])


def prefix_hits(results: Results) -> pd.DataFrame:
    """Return hits against their construction: later requests share the prefix, first ones none."""
    blocks = _block_tokens(results)
    engines = dict(zip(results.cells.cell_id, results.cells.engine, strict=True))

    def figures(row: Row, timelines: list[Timeline]) -> Iterator[Row]:
        shared = json.loads(row["asked"])["spec"]["prefix_tokens"]
        expected = {one.request: shared if one.role == "later" else 0 for one in timelines}
        usual = USUAL_BLOCK_TOKENS[engines[row["cell_id"]]]
        block = blocks.get((row["cell_id"], row["boot"]), usual)
        found = hits(timelines, expected, block)
        names = ("requests", "within", "measured_tokens", "expected_tokens")
        yield {"block_tokens": block, **{name: getattr(found, name) for name in names}}

    columns = ["block_tokens", "requests", "within", "measured_tokens", "expected_tokens"]
    return _of_loads(results, "shared_prefix", figures, columns)


def structured(results: Results) -> pd.DataFrame:
    """Return how many answers of constrained loads finished, are JSON, and obey their schema."""

    def figures(row: Row, timelines: list[Timeline]) -> Iterator[Row]:
        asked = json.loads(row["asked"])
        if not asked["spec"]["constrained"]:
            return
        schemas = {
            name.rpartition("/")[2].removesuffix(".json"): schema
            for name, schema in asked["contents"].items()
        }
        answers = [(one, one.answer) for one in timelines if one.answer is not None]
        found = validity(answers, schemas, asked["spec"]["output_tokens"])
        yield {"finished": found.finished, "json": found.json, "valid": found.valid}

    return _of_loads(results, "structured", figures, ["finished", "json", "valid"])


def stalls(results: Results) -> pd.DataFrame:
    """Return, for each injected prompt, the largest gap of any victim while it was in."""

    def figures(row: Row, timelines: list[Timeline]) -> Iterator[Row]:
        if row["verdict"] != "void":
            yield from ({"stall_s": stall_s} for stall_s in stalls_s(timelines))

    found = _of_loads(results, "interference", figures, ["stall_s"])
    mixed = found.mixed_chunk.fillna(value=False).astype(bool)
    return found.assign(mixes=(found.engine == "vllm") | mixed)


def stalls_s(timelines: Iterable[Timeline]) -> Iterator[float]:
    """Yield the largest gap of any victim over each injected prompt's time, from send to end."""
    came = [one for one in timelines if served(one)]
    gaps = [gap for one in came if one.role == VICTIM for gap in gaps_ns(one)]
    for one in came:
        if one.role == INJECTED:
            until_ns = one.last_ns or one.ended_ns
            over = [end - begin for begin, end in gaps if begin < until_ns and end > one.sent_ns]
            if over:
                yield max(over) / 1e9


def capacity(results: Results) -> pd.DataFrame:
    """Return what each search found, with the range and the width that the file asks."""
    cells = results.cells[["cell_id", "engine"]]
    done = complete(results)[["cell_id", "boot", "attempt"]]
    found = results.capacity.merge(done, on=["cell_id", "boot", "attempt"]).merge(
        cells, on="cell_id"
    )
    [(experiment, run)] = runs_of(results)
    plans = declared(results, experiment, run).plans
    asked = {name: plan.range for name, plan in plans.items() if plan.range is not None}
    found = found[found.load.isin(asked)].copy()
    for name in ("low", "high", "within_ratio"):
        found[name] = [getattr(asked[load], name) for load in found.load]
    return found


def second_stage(results: Results) -> tuple[pd.DataFrame, int | None]:
    """Return the boots of the second stage, and the KV tokens that were frozen for it."""
    [note] = results.notes
    stages = list(dict.fromkeys(results.cells.stage.dropna()))
    every = boots(results)
    return every[every.stage == stages[-1]] if len(stages) == 2 else every[:0], note.get(
        "frozen_kv_tokens"
    )


def loops(results: Results) -> pd.DataFrame:
    """Return the delivered share and the most in flight of each load of each boot."""

    def figures(row: Row, timelines: list[Timeline]) -> Iterator[Row]:
        share = row["ok"] / row["requests"] if row["requests"] else None
        drawn, sent = row["drawn_per_s"], row["sent_per_s"]
        if share is not None and drawn and sent:
            share *= min(sent / drawn, 1.0)
        yield {
            "name": row["load"].partition("@")[0],
            "delivered_ratio": share,
            "most_flying": most_flying(timelines),
        }

    return _of_loads(results, "random", figures, ["name", "delivered_ratio", "most_flying"])


def most_flying(timelines: Iterable[Timeline]) -> int:
    """Return how many requests of the window were in flight at once at most."""
    window = [one for one in timelines if not one.warmup]
    steps = [(one.sent_ns, 1) for one in window] + [(one.ended_ns, -1) for one in window]
    flying = most = 0
    for _, step in sorted(steps):
        flying += step
        most = max(most, flying)
    return most


def _of_loads(
    results: Results,
    workload: str,
    figures: Callable[[Row, list[Timeline]], Iterator[Row]],
    columns: list[str],
) -> pd.DataFrame:
    """Return rows of figures of the loads of complete boots, beside what their boots were."""
    known = ["cell_id", "boot", "load", "level", "level_kind"]
    of_boot = ["engine", "prefix_cache", "chunk_tokens", "mixed_chunk"]
    told = boots(results).set_index(["cell_id", "boot"])
    rows = []
    for row in records(measured(results)):
        if row["workload"] == workload:
            timelines = list(results.timelines(row))
            boot: Any = told.loc[(row["cell_id"], row["boot"])]
            about = {name: row[name] for name in known} | {name: boot[name] for name in of_boot}
            rows += [{**about, **found} for found in figures(row, timelines)]
    frame = pd.DataFrame(rows, columns=[*known, *of_boot, *columns])
    return frame.assign(prefix_cache=frame.prefix_cache.fillna(value=False).astype(bool))


def _block_tokens(results: Results) -> dict[tuple[str, int], int]:
    """Return what the prefix cache of each boot counts in, as it stated."""
    facts = results.facts[results.facts.name == "block_tokens"]
    told = zip(facts.cell_id, facts.boot, facts.number, strict=True)
    return {(cell_id, boot): int(number) for cell_id, boot, number in told if not pd.isna(number)}
