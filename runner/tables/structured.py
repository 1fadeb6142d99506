"""Answers constrained to a schema: how many obey it, the grammar's first use, and the cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import pandas as pd

from runner.figures.structured import cost_at_equal_lengths, grammar, validity
from runner.load import Timeline
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.declared import declared
from runner.tables.derived import derived
from runner.tables.measured import records, values
from runner.tables.over_boots import Metric, over_boots

WORKLOADS: Final = ("structured",)
_NOTE: Final = (
    "cold: the first request of each schema, whose grammar is compiled, and those sent before its"
    " answer. JSON, valid: share of finished answers that are JSON, and that obey their schema; one"
    " cut at its longest length is not finished. Free and constrained answers may differ in length:"
    " mean output tokens stand beside, and the cost at equal lengths compares only lengths of both."
)
_SIMULATED_NOTE: Final = (
    "The simulated engine writes JSON where a schema makes it, else words: what share of free"
    " answers a model would get right is unknown."
)
_BROKEN: Final = "invalid_answers"


def figures(timelines: Iterable[Timeline], load: Mapping[Any, Any]) -> Mapping[str, float | None]:
    """Return median TTFT with a cold and a warm grammar, and the shares of valid answers."""
    listed = list(timelines)
    found = grammar(listed)
    return {
        **_shares(listed, load.get("asked")),
        "cold_s": median(found.cold_s) if found.cold_s else None,
        "warm_s": median(found.warm_s) if found.warm_s else None,
    }


def _shares(timelines: Iterable[Timeline], asked: Any) -> dict[str, float | None]:
    """Return the shares of answers finished, JSON and valid, in %; None where none is stored."""
    answers = [(one, one.answer) for one in timelines if one.answer is not None]
    unknown = dict.fromkeys(("finished_percent", "json_percent", "valid_percent"))
    if not answers or not isinstance(asked, str):
        return unknown
    load = json.loads(asked)
    schemas = {Path(name).stem: schema for name, schema in load["contents"].items()}
    found = validity(answers, schemas, load["spec"]["output_tokens"])
    whole = found.finished / found.answers if found.answers else None
    shares = zip(unknown, (whole, found.json_ratio, found.valid_ratio), strict=True)
    return {name: None if share is None else 100 * share for name, share in shares}


def build(results: Results) -> Shown | None:
    """Show throughput, validity, lengths and TTFT of each load; and constrained over free."""
    loads = derived(results, WORKLOADS, figures)
    if loads.empty:
        return None
    is_simulated = loads.simulated.fillna(value=False).astype(bool)
    is_free = ~loads.asked.map(_is_constrained).astype(bool)
    loads.loc[is_simulated & is_free, ["json_percent", "valid_percent"]] = None
    loads["mean_output_tokens"] = loads.output_tokens / loads.ok.where(loads.ok > 0)
    shown = over_boots(
        results,
        (
            Metric(heading="output tok/s", symbol="tok/s", column="output_tokens_per_s"),
            Metric(
                heading="tokens an answer",
                symbol="",
                column="mean_output_tokens",
                centre=False,
                timed=False,
            ),
            Metric(
                heading="finished %",
                symbol="",
                column="finished_percent",
                centre=False,
                timed=False,
            ),
            Metric(heading="JSON %", symbol="", column="json_percent", centre=False, timed=False),
            Metric(heading="valid %", symbol="", column="valid_percent", centre=False, timed=False),
            Metric(heading="cold TTFT ms", symbol="", column="cold_s", scale=1e3, centre=False),
            Metric(heading="warm TTFT ms", symbol="", column="warm_s", scale=1e3, centre=False),
        ),
        loads,
    )
    if shown is None:
        return None
    said = [*_over_free(results, loads)]
    broken = [*_broken(loads)]
    doubts = {**shown.doubts, **({_BROKEN: broken} if broken else {})}
    notes = [*shown.notes, _NOTE, *([_SIMULATED_NOTE] if is_simulated.any() else [])]
    return replace(shown, above=said, notes=notes, doubts=doubts)


def _broken(loads: pd.DataFrame) -> Iterator[str]:
    """Yield each constrained load whose finished answers do not all obey their schema."""
    for row in records(loads):
        share = row["valid_percent"]
        if _is_constrained(row["asked"]) and share is not None and share < 100:
            yield (
                f"{row['label']} {row['load']} boot {row['boot']}: {share:.3g} % of its finished"
                " answers obey the schema that the server was told to keep to"
            )


def _is_constrained(asked: Any) -> bool:
    """Tell whether the server constrains the answers of a load."""
    load = json.loads(asked) if isinstance(asked, str) else {}
    return bool(load.get("spec", {}).get("constrained"))


Pair = tuple[pd.DataFrame, pd.DataFrame]


def pairs(results: Results, loads: pd.DataFrame) -> Iterator[tuple[str, float, Pair]]:
    """Yield (cell, level, its free and its constrained loads)."""
    groups: Any = loads.groupby(["experiment", "run", "place", "label", "level"], sort=False)
    for (experiment, run, _, label, level), own in groups:
        plans = declared(results, experiment, run).plans
        of_kind: dict[bool, pd.DataFrame] = {}
        for load, rows in own.groupby("load", sort=False):
            plan = plans.get(str(load))
            if plan is not None and not plan.spec.fresh_grammar:
                of_kind.setdefault(bool(plan.spec.constrained), rows)
        if len(of_kind) == 2:
            yield label, float(level), (of_kind[False], of_kind[True])


def ratios(results: Results, loads: pd.DataFrame) -> Iterator[tuple[str, float, tuple[float, ...]]]:
    """Yield (cell, level, constrained over free output tokens per second of each boot)."""
    for cell, level, pair in pairs(results, loads):
        yield cell, level, tuple(_rates(pair).values())


def _over_free(results: Results, loads: pd.DataFrame) -> Iterator[str]:
    for cell, level, pair in pairs(results, loads):
        rates = _rates(pair)
        if rates:
            costs = [cost for cost in _costs(results, pair, rates) if cost is not None]
            equal = f"; time end to end at equal lengths {_listed(costs)}" if costs else ""
            yield (
                f"{cell} at level {level:g}: constrained over free output tok/s of each boot"
                f" {_listed(rates.values())}{equal}."
            )


def _rates(pair: Pair) -> dict[int, float]:
    free, constrained = map(_by_boot, pair)
    return {boot: constrained[boot] / free[boot] for boot in free if boot in constrained}


def _costs(results: Results, pair: Pair, boots: Iterable[int]) -> Iterator[float | None]:
    """Yield constrained over free time of answers of equal length, boot by boot."""
    for boot in boots:
        rows = (records(side[side.boot == boot])[0] for side in pair)
        free, constrained = (results.timelines(row) for row in rows)
        yield cost_at_equal_lengths(free, constrained)


def _listed(ratios: Iterable[float]) -> str:
    return " / ".join(f"{ratio:.3f}" for ratio in ratios)


def _by_boot(rows: pd.DataFrame) -> dict[int, float]:
    known = zip(rows.boot, values(rows, "output_tokens_per_s"), strict=True)
    return {int(boot): value for boot, value in known if value}


TABLE = Table(name="structured", title="Structured output", order=58, build=build)
