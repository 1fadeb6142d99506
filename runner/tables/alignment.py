"""What is compared, as each server was observed: side by side, with a sentence for each pair."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

import engines
from runner.sides.alignment import RULES, Observed, Value, sentence
from runner.sides.alignment import shown as spelled
from runner.stored.frames import Results, once
from runner.tables import Shown, Table
from runner.tables.declared import declared
from runner.tables.grid import number
from runner.tables.kinds import KEY, Key
from runner.tables.measured import complete, records
from runner.tables.runs import cells_of, labels_of, runs_of

_NOTE: Final = (
    "Values are observed, not requested; boots that differ are parted by a slash. A dash: nothing"
    " that the server says, or the load shows, tells it."
)
_GIB: Final = 1 << 30
_COLUMNS: Final = {
    "KV tokens": "kv_tokens",
    "max running": "max_running",
    "context tokens": "context_tokens",
    "compile cache": "compile_cache",
    "machine": "host",
    "model build": "model_build",
    "way to the server": "way",
}
"""Aspect -> column of `boots`."""
_FACTS: Final = {
    "dtype": "dtype",
    "block tokens": "block_tokens",
    "attention backend": "attention_backend",
    "tensor parallel": "tensor_parallel",
}
"""Aspect -> fact."""
_SAYS_NOTHING: Final = {"auto", "none", ""}


def build(results: Results) -> Shown | None:
    """Show each aspect of each cell, and above it whether declared pairs may be compared."""
    seen = observed(results)
    if len(seen) < 2:
        return None
    rows = [
        {"aspect": rule.name, **{one.cell: _cell(one, rule.name) for one in seen.values()}}
        for rule in RULES
        if any(rule.name in one.seen for one in seen.values())
    ]
    return Shown(frame=pd.DataFrame(rows), above=sentences(results, seen), notes=[_NOTE], keys=1)


def sentences(results: Results, seen: Mapping[Key, Observed]) -> list[str]:
    """Return whether each declared pair of cells may be compared."""
    found = []
    for experiment, run in runs_of(results):
        by_label = labels_of(results, experiment, run)
        for pair in declared(results, experiment, run).pairs:
            sides = [seen.get(by_label[label]) for label in pair]
            if sides[0] is not None and sides[1] is not None:
                found.append(sentence(sides[0], sides[1]))
    return found


@once
def observed(results: Results) -> dict[Key, Observed]:
    """Return what was observed of each cell that has a complete boot, in the order of a report."""
    boots = complete(results)
    cells = cells_of(results)
    facts = dict(list(results.facts.groupby(KEY, sort=False)))
    loads = dict(list(results.loads.groupby(KEY, sort=False)))
    found: dict[Key, Observed] = {}
    of_cell: dict[Key, list[dict[str, Any]]] = {}
    for row in records(boots):
        of_cell.setdefault((row["experiment"], row["run"], row["cell_id"]), []).append(row)
    for key, own in of_cell.items():
        cell = cells[key]
        values = {
            **_of_cell(cell),
            **_of_boots(own, str(cell["engine"])),
            **_of_facts(facts.get(key), cell),
            **_of_loads(loads.get(key)),
            **_of_sampling(results, key),
        }
        found[key] = Observed(
            cell=str(own[0]["label"]),
            engine=str(cell["engine"]),
            asked=json.loads(cell["settings"] or "{}") | {"model": cell["model"]},
            seen={name: tuple(given) for name, given in values.items() if given},
        )
    return found


def _cell(one: Observed, name: str) -> str | None:
    return spelled(one.seen[name]) if name in one.seen else None


def _of_cell(cell: Mapping[str, Any]) -> dict[str, list[Value]]:
    marks = [mark for mark in ("simulated", "rehearsal") if bool(cell[mark])]
    served: Value = " and ".join(marks) if marks else "the engine itself"
    return {"served by": [served], "model": [str(cell["model"])] if cell["model"] else []}


def _of_boots(rows: Sequence[dict[str, Any]], engine: str) -> dict[str, list[Value]]:
    found = {name: _distinct(row[column] for row in rows) for name, column in _COLUMNS.items()}
    found["GPU"] = _distinct(_gpus(row) for row in rows)
    found["weights GiB"] = _distinct(_scaled(row["weights_bytes"], _GIB) for row in rows)
    found["KV bytes a token"] = _distinct(
        _scaled(row["kv_bytes"], row["kv_tokens"]) for row in rows
    )
    found["chunk"] = _distinct(_chunk(row["chunk_tokens"], engine) for row in rows)
    for name in ("mixed_chunk", "prefix_cache"):
        found[name.replace("_", " ")] = _distinct(_switch(row[name]) for row in rows)
    return found


def _of_facts(facts: pd.DataFrame | None, cell: Mapping[str, Any]) -> dict[str, list[Value]]:
    stated: dict[str, list[str]] = {}
    if facts is not None:
        for name, value in facts[["name", "value"]].drop_duplicates().itertuples(index=False):
            stated.setdefault(str(name), []).append(str(value))
    words = {name: _distinct(map(_word, stated.get(fact, ()))) for name, fact in _FACTS.items()}
    drafts = any(name.startswith("draft_") for name in stated)
    flags = " ".join(cell["flags"] if cell["flags"] is not None else ())
    speculates = drafts or "speculative" in flags
    return {**words, "graphs": _graphs(stated), "speculation": ["on" if speculates else "off"]}


def _of_loads(loads: pd.DataFrame | None) -> dict[str, list[Value]]:
    """Return the tokens of a streamed chunk, over all good loads."""
    if loads is None:
        return {}
    good = loads[(loads.verdict != "void") & (loads.itl_count > 0)]
    chunks = good.itl_count + good.ok
    ratio = (good.output_tokens / chunks).median() if len(good) else None
    return {} if ratio is None or pd.isna(ratio) else {"tokens a streamed chunk": [float(ratio)]}


def _of_sampling(results: Results, key: Key) -> dict[str, list[Value]]:
    plans = declared(results, key[0], key[1]).plans.values()
    return {"sampling": _distinct(_sampled(plan.keys.sampling.model_dump()) for plan in plans)}


def _sampled(keys: Mapping[str, Any]) -> str:
    if not keys["temperature"]:
        return "greedy"
    return ", ".join(f"{name} {value}" for name, value in keys.items() if value is not None)


def _graphs(stated: Mapping[str, list[str]]) -> list[Value]:
    if "enforce_eager" in stated:
        return _distinct("off" if value == "True" else "on" for value in stated["enforce_eager"])
    return ["on"] if stated.keys() & {"graph_capture_s", "graph_bytes"} else []


def _gpus(row: Mapping[str, Any]) -> str | None:
    names = row["gpu_names"]
    return ", ".join(names) if names is not None and len(names) else None


def _chunk(tokens: float | None, engine: str) -> str | None:
    if tokens is None:
        return None
    counts = engines.get(engine).chunk_counts if engine in engines.names() else ""
    return f"{number(tokens)} of {counts}" if counts else number(tokens)


def _switch(value: Any) -> str | None:
    return None if value is None else "on" if value else "off"


def _word(value: str) -> str | None:
    word = value.removeprefix("torch.")
    return None if word.lower() in _SAYS_NOTHING else word


def _scaled(value: float | None, unit: float | None) -> float | None:
    """Return a ratio to three digits: sizes in logs are rounded to no more."""
    return None if value is None or not unit else float(f"{value / unit:.3g}")


def _distinct(values: Iterable[Value | None]) -> list[Value]:
    return list(dict.fromkeys(value for value in _known(values)))


def _known(values: Iterable[Value | None]) -> Iterator[Value]:
    return (value for value in values if value is not None)


TABLE = Table(name="alignment", title="What is compared, as observed", order=25, build=build)
