"""Whether to believe a figure: a few words from its boots, their kinds and their doubts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runner.doubts import ADVICE
from runner.sides.between import Judged
from runner.stored.frames import Results
from runner.tables.capacity import searches
from runner.tables.kinds import Key, Kinds
from runner.tables.measured import complete, measured, records
from runner.tables.runs import cells_of
from runner.tables.samples import Sample

Seen = Mapping[str, str]
"""Name of a doubt -> its severity."""
_FEW: Final = 5
_MARKS: Final = {"simulated": "of a mechanism, not of a GPU", "rehearsal": "that it works, no more"}
"""Mark of a cell that is no measurement -> what may be believed of it."""


def doubts_seen(results: Results) -> Mapping[tuple[Key, str], Seen]:
    """Return the doubts on each load of each cell: its own, its boots' and its cell's."""
    of_cell: dict[Key, dict[str, str]] = {}
    for key, cell in cells_of(results).items():
        of_cell[key] = {mark: ADVICE[mark][0] for mark in _MARKS if cell[mark]}
    for row in records(complete(results)):
        of_cell.setdefault(_key(row), {}).update(_entries(row))
    found: dict[tuple[Key, str], dict[str, str]] = {}
    for row in records(measured(results)):
        key = _key(row)
        seen = found.setdefault((key, str(row["load"])), dict(of_cell.get(key, {})))
        seen.update(_entries(row))
    for row in records(searches(results)):
        key = _key(row)
        seen = found.setdefault((key, str(row["load"])), dict(of_cell.get(key, {})))
        seen.update({} if row["why"] == "found" else {"unsearched": ADVICE["unsearched"][0]})
    return found


def of_figure(sample: Sample, kinds: Kinds, seen: Seen) -> str:
    """Return whether a figure of one run may be believed.

    Args:
        sample: its boots.
        kinds: kinds of the cell's boots.
        seen: doubts on it.
    """
    boots = len(sample.by_block)
    if boots == 0:
        void = _named(seen, "void")
        return f"no: void, {void}" if void else "no: no boot gave this figure"
    if kinds.several:
        return f"no single figure: {len(kinds.kinds)} kinds of boots by {', '.join(_by(kinds))}"
    if boots == 1:
        return "no: one boot alone"
    inside = f"{100 * (boots - 1) / (boots + 1):.0f} %"
    word = "yes" if boots >= _FEW else f"as a range, which holds the next boot in {inside}"
    return word + _care(seen)


def of_verdict(one: Judged, seen: Seen) -> str:
    """Return whether a verdict on two runs may be believed, and what it rests on.

    Args:
        one: the comparison.
        seen: doubts on the later run.
    """
    verdict = one.verdict
    if verdict.word == "not enough data":
        return "no: shown, not judged"
    if "earlier nights" in verdict.method or "night means" in verdict.method:
        return f"yes: against {verdict.n} earlier nights{_care(seen)}"
    return f"yes: {verdict.n} boots each, against the pinned cell{_care(seen)}"


def _care(seen: Seen) -> str:
    """Return what limits a belief: doubts that weaken it, and that nothing real was measured."""
    suspect = _named(seen, "suspect")
    said = [f"with care: {suspect}"] if suspect else []
    said += [f"{mark}: {worth}" for mark, worth in _MARKS.items() if mark in seen]
    return "".join(f"; {one}" for one in said)


def _named(seen: Seen, severity: str) -> str:
    return ", ".join(name for name, given in seen.items() if given == severity)


def _by(kinds: Kinds) -> list[str]:
    return list(kinds.kinds[0].facts)


def _key(row: Mapping[str, Any]) -> Key:
    return str(row["experiment"]), str(row["run"]), str(row["cell_id"])


def _entries(row: Mapping[str, Any]) -> dict[str, str]:
    entries = row["doubts"] if row["doubts"] is not None else ()
    return {entry["name"]: entry["severity"] for entry in entries}
