"""Each setting's three lives: requested, resolved into flags, observed in what the server said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from engines.facts import CATALOGUE as FACTS
from engines.observing import FROM_LOAD, OBSERVED
from engines.settings import CATALOGUE
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.kinds import KEY, spans
from runner.tables.measured import labelled
from runner.tables.runs import cells_of

_NOTE = (
    "resolved: the words sent because of the setting; empty where the engine's default serves."
    " observed: what the server stated, by source; 'load' is what the load showed. Boots and cells"
    " that agree share a row."
)


def build(results: Results) -> Shown | None:
    """Show every setting that was requested, or that a server stated, of each cell."""
    ready = results.boots[results.boots.ready_s.notna() & (results.boots.boot >= 0)]
    if ready.empty:
        return None
    rows: list[dict[str, Any]] = []
    cells, facts = cells_of(results), dict(iter(results.facts.groupby(KEY, sort=False)))
    groups: Any = labelled(ready, results).groupby(["place", *KEY], sort=False)
    for (_, *key), boots in groups:
        own = facts.get(tuple(key))
        rows += _cell(cells[tuple(key)], boots, {} if own is None else _stated(own))
    if not rows:
        return None
    unseen = [row for row in rows if row["requested"] and not row["observed"]]
    said = [f"{row['cell']}: {row['setting']} = {row['requested']}" for row in unseen]
    doubts = {"setting_not_observed": list(dict.fromkeys(said))} if said else {}
    return Shown(frame=pd.DataFrame(_shared(rows)), notes=[_NOTE], doubts=doubts)


def _shared(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each life of a setting, in the catalogue's order, with all who share it."""
    lives: dict[tuple[str, str, str, str, str], dict[str, list[str]]] = {}
    for row in rows:
        life = (row["engine"], row["setting"], row["requested"], row["resolved"], row["observed"])
        lives.setdefault(life, {}).setdefault(row["boots"], []).append(row["cell"])
    cells: dict[str, set[str]] = {}
    for row in rows:
        cells.setdefault(row["engine"], set()).add(row["cell"])
    for (engine, setting, asked, sent, told), whose in lives.items():
        for boots, labels in whose.items():
            everywhere = len(labels) > 1 and set(labels) == cells[engine]
            yield {
                "setting": setting,
                "cells": f"{engine}: all {len(labels)}" if everywhere else "; ".join(labels),
                "boots": boots,
                "requested": asked,
                "resolved": sent,
                "observed": told,
            }


def _cell(
    cell: Mapping[str, Any], boots: pd.DataFrame, stated: Mapping[int, Stated]
) -> Iterator[dict[str, Any]]:
    asked, sent = json.loads(cell["settings"]), json.loads(cell["resolved"] or "{}")
    for setting in CATALOGUE:
        seen: dict[str, list[int]] = {}
        for boot in sorted(boots.boot.unique()):
            told = _observed(stated.get(boot, {}), setting)
            seen.setdefault(told, []).append(boot)
        for told, same in seen.items():
            if told or setting in asked:
                yield {
                    "engine": cell["engine"],
                    "cell": cell["label"],
                    "boots": spans(same),
                    "setting": setting,
                    "requested": _asked(asked.get(setting)),
                    "resolved": " ".join(sent.get(setting, ())),
                    "observed": told,
                }


Stated = dict[str, dict[str, str]]
"""Name of a fact -> source -> what it said first."""


def _stated(facts: pd.DataFrame) -> dict[int, Stated]:
    """Return what each boot's server stated."""
    found: dict[int, Stated] = {}
    columns = (facts[name] for name in ("boot", "name", "source", "value"))
    for boot, name, source, value in zip(*columns, strict=True):
        found.setdefault(boot, {}).setdefault(name, {}).setdefault(source, value)
    return found


def _observed(stated: Stated, setting: str) -> str:
    names = (*OBSERVED.get(setting, (setting,)), *FROM_LOAD.get(setting, ()))
    words: dict[str, list[str]] = {}
    for name in names:
        for source, value in stated.get(name, {}).items():
            told = _spelled(name, value)
            said = told if name == setting else f"{name} {told}"
            words.setdefault(said, []).append(source)
    return "; ".join(f"{said} ({', '.join(sources)})" for said, sources in words.items())


def _spelled(name: str, value: str) -> str:
    """Return a value as people read it: sizes in GiB, to what their sources round them to."""
    if FACTS[name].unit != "bytes":
        return value
    return f"{int(value) / 2**30:.2f} GiB"


def _asked(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    return "" if value is None else str(value)


TABLE = Table(
    name="settings",
    title="Settings: requested, resolved, observed",
    order=20,
    build=build,
)
