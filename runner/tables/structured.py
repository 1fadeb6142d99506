"""Answers constrained to a schema: the grammar's first use, and the cost over free answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Any, Final

import pandas as pd

from runner.figures.structured import grammar
from runner.frames import Results
from runner.load import Timeline
from runner.tables import Shown, Table
from runner.tables.declared import declared
from runner.tables.derived import derived
from runner.tables.over_boots import Metric, over_boots, values

WORKLOADS: Final = ("structured",)
_NOTE: Final = (
    "cold: the first request of each schema, whose grammar is compiled, and those sent before its"
    " answer. Free and constrained answers may differ in length: mean output tokens stand beside."
)


def figures(timelines: Iterable[Timeline]) -> Mapping[str, float | None]:
    """Return median TTFT with a grammar that is compiled, and with one that is there."""
    found = grammar(timelines)
    return {
        "cold_s": median(found.cold_s) if found.cold_s else None,
        "warm_s": median(found.warm_s) if found.warm_s else None,
    }


def build(results: Results) -> Shown | None:
    """Show throughput, output lengths and TTFT of each load; and constrained over free of each."""
    loads = derived(results, WORKLOADS, figures)
    if loads.empty:
        return None
    loads["mean_output_tokens"] = loads.output_tokens / loads.ok.where(loads.ok > 0)
    shown = over_boots(
        results,
        (
            Metric(heading="output tok/s", symbol="tok/s", column="output_tokens_per_s"),
            Metric(
                heading="tokens an answer", symbol="", column="mean_output_tokens", centre=False
            ),
            Metric(heading="cold TTFT ms", symbol="", column="cold_s", scale=1e3, centre=False),
            Metric(heading="warm TTFT ms", symbol="", column="warm_s", scale=1e3, centre=False),
        ),
        loads,
    )
    if shown is None:
        return None
    said = [*_over_free(results, loads)]
    return replace(shown, above=said, notes=[*shown.notes, _NOTE])


def ratios(results: Results, loads: pd.DataFrame) -> Iterator[tuple[str, float, tuple[float, ...]]]:
    """Yield (cell, level, constrained over free output tokens per second of each boot)."""
    groups: Any = loads.groupby(["experiment", "run", "place", "label", "level"], sort=False)
    for (experiment, run, _, label, level), own in groups:
        plans = declared(results, experiment, run).plans
        of_kind: dict[bool, pd.DataFrame] = {}
        for load, rows in own.groupby("load", sort=False):
            plan = plans.get(str(load))
            if plan is not None and not plan.spec.fresh_grammar:
                of_kind.setdefault(bool(plan.spec.constrained), rows)
        if len(of_kind) == 2:
            free, constrained = (_by_boot(of_kind[kind]) for kind in (False, True))
            both = [boot for boot in free if boot in constrained]
            yield label, float(level), tuple(constrained[boot] / free[boot] for boot in both)


def _over_free(results: Results, loads: pd.DataFrame) -> Iterator[str]:
    for cell, level, each in ratios(results, loads):
        listed = " / ".join(f"{ratio:.3f}" for ratio in each)
        if listed:
            yield (
                f"{cell} at level {level:g}: constrained over free output tok/s of each boot"
                f" {listed}."
            )


def _by_boot(rows: pd.DataFrame) -> dict[int, float]:
    known = zip(rows.boot, values(rows, "output_tokens_per_s"), strict=True)
    return {int(boot): value for boot, value in known if value}


TABLE = Table(name="structured", title="Structured output", order=58, build=build)
