"""One number per boot: what a load came to on each boot of a cell, ready for statistics.

Repeats of a load within a boot are no replicates: they become their geometric mean. Void loads
take no part. The figure of a search is its capacity, whatever metric the other loads are judged by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from runner.stats.interval import per_boot
from runner.stats.kv import requests_at_once
from runner.stored.frames import Results, once
from runner.tables.capacity import searches
from runner.tables.kinds import Key
from runner.tables.measured import measured, values

_OF_BOOTS: Final = (
    *("boots", "blocks", "figures", "requests", "kv_tokens", "request_tokens", "max_running"),
    "caches",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One load of one cell; every tuple has one entry for each boot, in their order.

    Attributes:
        key: experiment, run and cell_id.
        cell: the cell as tables name it.
        label: the cell's own name in its experiment.
        engine: which engine it starts.
        load: id of the load.
        in_flight: requests asked in flight; None in open loop.
        boots: numbers of the boots.
        blocks: the blocks they belong to.
        figures: the metric; None where the load is void or gave none.
        requests: successful requests of one load.
        kv_tokens: capacity of the KV cache; None where it is not known.
        request_tokens: mean input and output of a request.
        max_running: most requests that run at once; None where it is not known.
        caches: what the compile cache held: cold, warm, or none.
        width_ratio: of a search, how far the lowest level that missed lies above the highest that
            met, in the boot where that is most; None for other loads.
    """

    key: Key
    cell: str
    label: str
    engine: str
    load: str
    in_flight: int | None
    boots: tuple[int, ...]
    blocks: tuple[int, ...]
    figures: tuple[float | None, ...]
    requests: tuple[int, ...]
    kv_tokens: tuple[int | None, ...]
    request_tokens: tuple[float | None, ...]
    max_running: tuple[int | None, ...] = ()
    caches: tuple[str | None, ...] = ()
    width_ratio: float | None = None

    @property
    def searched(self) -> bool:
        """Tell whether it is a search: its figures are capacities, of which more is better."""
        return self.width_ratio is not None

    @property
    def fit(self) -> tuple[int | None, ...]:
        """Return how many whole requests fit the KV cache at once."""
        return tuple(
            None if kv is None or tokens is None else requests_at_once(kv, round(tokens), 0)
            for kv, tokens in zip(self.kv_tokens, self.request_tokens, strict=True)
        )

    @property
    def is_full(self) -> bool:
        """Tell whether some boot has less room than there are requests in flight."""
        asked = self.in_flight
        return asked is not None and any(fit is not None and fit < asked for fit in self.fit)

    @property
    def by_block(self) -> dict[int, float]:
        """Return the figure of each block that has one."""
        pairs = zip(self.blocks, self.figures, strict=True)
        return {block: figure for block, figure in pairs if figure is not None}

    def of(self, boots: Sequence[int]) -> Sample:
        """Return the same of some boots only."""
        places = [place for place, boot in enumerate(self.boots) if boot in boots]
        picked: dict[str, Any] = {
            name: tuple(getattr(self, name)[place] for place in places)
            for name in _OF_BOOTS
            if getattr(self, name)
        }
        return replace(self, **picked)


Samples = Mapping[tuple[Key, str], Sample]


@once
def samples(results: Results, metric: str) -> dict[tuple[Key, str], Sample]:
    """Return the sample of each cell and load, in the order of a report."""
    loads = measured(results)
    engines = results.cells.set_index(["experiment", "run", "cell_id"]).engine
    found: dict[tuple[Key, str], Sample] = {}
    groups: Any = loads.groupby(["experiment", "run", "place", "load"], sort=False)
    for _, rows in groups:
        sample = _sample(rows, metric, engines)
        found.setdefault((sample.key, sample.load), sample)
    groups = searches(results).groupby(["experiment", "run", "place", "load"], sort=False)
    for _, rows in groups:
        sample = _search(rows, engines)
        found.setdefault((sample.key, sample.load), sample)
    return found


@once
def samples_by_run(results: Results, metric: str) -> dict[tuple[str, str], Samples]:
    """Return the samples of each run."""
    found: dict[tuple[str, str], dict[tuple[Key, str], Sample]] = {}
    for (key, load), sample in samples(results, metric).items():
        found.setdefault(key[:2], {})[(key, load)] = sample
    return {**found}


def _sample(rows: pd.DataFrame, metric: str, engines: pd.Series[Any]) -> Sample:
    first = rows.iloc[0]
    key = (str(first.experiment), str(first.run), str(first.cell_id))
    boots = rows.drop_duplicates("boot")
    of_boot: dict[int, list[float | None]] = {}
    for boot, figure in zip(rows.boot, values(rows, metric), strict=True):
        of_boot.setdefault(int(boot), []).append(figure)
    lengths = (boots.input_tokens + boots.output_tokens) / boots.ok.where(boots.ok > 0)
    return Sample(
        key=key,
        cell=str(first.label),
        label=str(first.own_label),
        engine=str(engines[key]),
        load=str(first.load),
        in_flight=int(first.level) if first.level_kind == "concurrency" else None,
        boots=tuple(int(boot) for boot in boots.boot),
        blocks=tuple(int(block) for block in boots.block),
        figures=tuple(_figure(of_boot[int(boot)]) for boot in boots.boot),
        requests=tuple(0 if pd.isna(ok) else int(ok) for ok in boots.ok),
        kv_tokens=tuple(None if pd.isna(kv) else int(kv) for kv in boots.kv_tokens),
        request_tokens=tuple(None if pd.isna(one) else float(one) for one in lengths),
        max_running=tuple(None if pd.isna(most) else int(most) for most in boots.max_running),
        caches=tuple(None if pd.isna(cache) else str(cache) for cache in boots.compile_cache),
    )


def _search(rows: pd.DataFrame, engines: pd.Series[Any]) -> Sample:
    """Return the capacity of each boot; a search that found none gives no figure."""
    answered = rows[rows.why == "found"]
    widths = answered.missed_level / answered.level - 1
    none: dict[str, Any] = {
        "verdict": "ok",
        "ok": 0,
        "input_tokens": math.nan,
        "output_tokens": math.nan,
    }
    levels = rows.level.astype(float).where(rows.why == "found")
    sample = _sample(rows.assign(capacity=levels, level_kind="", **none), "capacity", engines)
    return replace(sample, width_ratio=0.0 if widths.empty else float(widths.max()))


def _figure(repeats: Sequence[float | None]) -> float | None:
    """Return a boot's figure over its repeats; None where none has a logarithm."""
    known = [figure for figure in repeats if figure is not None]
    return per_boot([known])[0] if known and min(known) > 0 else None
