"""What a run's own file declares to compare, as it stood when the run was opened."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from runner import workloads
from runner.errors import ExperimentError
from runner.experiment import Compare, Experiment
from runner.experiment.aa import AGAIN
from runner.experiment.levels import Load, loads_of
from runner.experiment.night import REFERENCE
from runner.experiment.pairs import pairs_of
from runner.experiment.read import overlaid
from runner.stored.frames import Results, once

_Run = tuple[str, str]
"""Experiment and run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What is compared in one run.

    Attributes:
        compare: the keys of `[compare]`; defaults where the file has none.
        is_written: the file has a `[compare]`: without one there is no margin to be equal within.
        pairs: labels of two cells each; the first over the second.
        loads: ids of the loads that are compared.
        plans: all loads of the file by their id.
        after_boots: boots that were stored before the file said so; 0 where it always did.
    """

    compare: Compare
    is_written: bool
    pairs: tuple[tuple[str, str], ...]
    loads: tuple[str, ...]
    plans: dict[str, Load]
    after_boots: int = 0

    @property
    def m(self) -> int:
        """Return how many comparisons the family has, measured or not."""
        return len(self.pairs) * len(self.loads)

    @property
    def margin_ratio(self) -> float | None:
        """Return the margin of "equal within"; None where nobody declared one."""
        return self.compare.margin_ratio if self.is_written else None


@once
def declared(results: Results, experiment: str, run: str) -> Declared:
    """Return what one run declares; a file that is no longer understood declares nothing."""
    cells = _cells(results).get((experiment, run), [])
    labels = [
        str(label)
        for label, name, reasons, _ in cells
        if (reasons is None or not len(reasons)) and name not in {REFERENCE, AGAIN}
    ]
    rehearsal = any(rehearsed is True for *_, rehearsed in cells)
    note = _notes(results).get((experiment, run), {"file": ""})
    file = _file(note["file"], rehearsal=rehearsal)
    compare = (file.compare if file else None) or Compare()
    plans = {load.load: load for keys in (file.loads if file else ()) for load in loads_of(keys)}
    levels = tuple(name for name, load in plans.items() if load.range is None)
    known = levels if plans else tuple(_loads(results).get((experiment, run), {}))
    try:
        pairs = pairs_of(labels, compare.pairs)
    except ExperimentError:
        pairs = ()
    return Declared(
        compare=compare,
        is_written=file is not None and file.compare is not None,
        pairs=pairs,
        loads=tuple(load for load in known if _is_compared(load, compare, plans)),
        plans=plans,
        after_boots=_after(note, file, rehearsal=rehearsal),
    )


@once
def _cells(results: Results) -> dict[_Run, list[tuple[Any, ...]]]:
    """Return label, name, what does not apply and whether it is rehearsed, of each run's cells."""
    found: dict[_Run, list[tuple[Any, ...]]] = {}
    columns = ("experiment", "run", "label", "name", "inapplicable", "rehearsal")
    for experiment, run, *told in zip(*(results.cells[c] for c in columns), strict=True):
        found.setdefault((experiment, run), []).append(tuple(told))
    return found


@once
def _notes(results: Results) -> dict[_Run, dict[str, Any]]:
    return {(note["experiment"], note["run"]): note for note in results.notes}


@once
def _loads(results: Results) -> dict[_Run, dict[str, None]]:
    """Return the loads of each run that are no probes, in the order they were stored."""
    found: dict[_Run, dict[str, None]] = {}
    loads = results.loads[results.loads.search.isna()]
    for experiment, run, load in zip(loads.experiment, loads.run, loads.load, strict=True):
        found.setdefault((experiment, run), {})[str(load)] = None
    return found


def _is_compared(load: str, compare: Compare, plans: Mapping[str, Load]) -> bool:
    """Tell whether a load is compared: as written, else where its speed is a result."""
    if compare.loads:
        return load in compare.loads
    return load not in plans or workloads.get(plans[load].workload).timed


@functools.lru_cache(maxsize=64)
def _file(text: str, *, rehearsal: bool) -> Experiment | None:
    try:
        raw = tomllib.loads(text)
        laid = overlaid(raw, raw.get("rehearse", {})) if rehearsal else raw
        return Experiment.model_validate(laid)
    except (tomllib.TOMLDecodeError, ValidationError):
        return None


def _after(note: Mapping[str, Any], now: Experiment | None, *, rehearsal: bool) -> int:
    """Return the boots that were stored when the file still compared otherwise."""
    found = 0
    for before in note.get("earlier", ()):
        then = _file(before["file"], rehearsal=rehearsal)
        if now is not None and (then is None or then.compare != now.compare):
            found = max(found, int(before["boots"]))
    return found
