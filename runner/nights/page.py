"""The page of one night: what to believe, what moved, what ran, and all tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd

from runner.errors import DONE, FAILED, HostError, NotEnoughData
from runner.experiment.night import NightKeys
from runner.nights.share import Share
from runner.nights.verdicts import Compared, compared, figure_rows, verdict_rows
from runner.plan.text import spelled_time
from runner.report import labels, report
from runner.stored.frames import Results, results
from runner.tables.columns import wanted
from runner.tables.grid import grid

_SHOWN: Final = 5
_FIGURES: Final = (
    "yes: five boots or more agree in kind, and no doubt weakens them. Each is one machine's figure"
    " of tonight; whether it moved is said above, and why it may be doubted with each table below."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A night on one page.

    Attributes:
        name: of the night.
        headline: the night in one sentence.
        head: the first part: what to believe, what moved, what ran.
        exit_code: what the command ends with.
        tonight: results of tonight's runs.
    """

    name: str
    headline: str
    head: str
    exit_code: int
    tonight: Sequence[Results] = ()

    @property
    def text(self) -> str:
        """Return the whole page as Markdown, all tables of tonight's runs at its end."""
        return "\n".join([self.head, *_tables(self.tonight)])


def page_of(shares: Sequence[Share], keys: NightKeys, folder: Path, name: str) -> Page:
    """Return the page of a night.

    Args:
        shares: what each experiment got of it.
        keys: how nights are judged.
        folder: folder of all results.
        name: of the night.
    """
    runs = [share.summary for share in shares if share.summary is not None]
    tonight = [results(run.folder, runs=[run.run_id], wanted=wanted) for run in runs]
    found = compared(tonight, keys, folder)
    headline = _headline(shares, found)
    said = list(dict.fromkeys(line for one in tonight for line in labels(one)))
    head = [f"# Night {name}", "", f"**{headline}**", "", *(f"{line}\n" for line in said)]
    head += ["## Against earlier nights", "", *_between(found, keys)]
    head += [*_figures(found, keys), "## What ran", "", _ran(shares), "", *_not_reached(shares)]
    return Page(
        name=name,
        headline=headline,
        head="\n".join(head) + "\n",
        exit_code=_exit_code(shares, found),
        tonight=tonight,
    )


def _headline(shares: Sequence[Share], found: Compared) -> str:
    words = [one.verdict.word for one in found.found.judged]
    judged = [word for word in words if word != "not enough data"]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    if found.worse:
        verdict = f"REGRESSION: {_few(found.worse)}"
    elif judged:
        verdict = f"No regression among {len(judged)} verdicts: {counts}"
    else:
        verdict = f"No verdict: {counts or 'nothing to hold this night against yet'}"
    left = sum(len(share.not_reached) for share in shares)
    missing = f"; {left} blocks not reached, which is no regression" if left else ""
    refused = [share.plan.experiment.name for share in shares if share.refused]
    out = f"; left out: {', '.join(refused)}" if refused else ""
    return f"{verdict}{missing}{out}{_trouble(shares)}."


def _trouble(shares: Sequence[Share]) -> str:
    """Return how many boots failed and loads are void, which the exit code tells of too."""
    runs = [share.summary for share in shares if share.summary is not None]
    failed, void = sum(run.unexpected for run in runs), sum(run.void_loads for run in runs)
    counts = [f"{failed} boots failed"] * bool(failed) + [f"{void} loads void"] * bool(void)
    return f"; {' and '.join(counts)}, see below" if counts else ""


def _few(said: Sequence[str]) -> str:
    more = [f"and {len(said) - _SHOWN} more"] if len(said) > _SHOWN else []
    return "; ".join([*said[:_SHOWN], *more])


def _between(found: Compared, keys: NightKeys) -> Iterator[str]:
    if not found.found.judged:
        yield "No earlier night has these cells: there is nothing to hold this one against.\n"
        return
    margin = 100 * keys.margin_ratio
    yield from (f"- {said}." for said in found.worse[_SHOWN:])
    yield from (f"- {said}." for said, better in found.since if better)
    yield from (f"- {said}" for said in (*found.found.changes, *found.found.missing))
    yield from (f"- {said}" for said in found.pinned)
    yield ""
    yield grid(verdict_rows(found), "github")
    yield (
        f"\n{keys.metric}: ratio of geometric means, tonight over the other night; Holm over m ="
        f" {found.found.rules.m}, equal within {margin:g} %. Boots of two nights are never pooled:"
        " a verdict needs the pinned cell and five boots in both nights, or ten earlier nights. A"
        " change since some night needs twenty, and two nights running that show it."
        f"{_of_searches(found)}\n"
    )


def _figures(found: Compared, keys: NightKeys) -> Iterator[str]:
    rows = figure_rows(found)
    if len(rows):
        yield from (f"## Tonight's figures: {keys.metric}", "", grid(rows, "github"), "")
        yield f"{_FIGURES}{_of_searches(found)}\n"


def _of_searches(found: Compared) -> str:
    """Return what the figure of a search is; nothing where there is none."""
    samples = (sample for one in found.tonight for sample in one.side.samples.values())
    return " Of a search: its capacity, more is better." if any(s.searched for s in samples) else ""


def _ran(shares: Sequence[Share]) -> str:
    return grid(pd.DataFrame([_share(share) for share in shares]), "github")


def _share(share: Share) -> dict[str, Any]:
    run = share.summary
    return {
        "experiment": share.plan.experiment.name,
        "run": run.run_id if run else None,
        "boots stored": f"{run.stored if run else 0} of {len(share.plan.every_boot)}",
        "started now": share.started,
        "failed": run.unexpected if run else 0,
        "void loads": run.void_loads if run else 0,
        "left out because": share.refused or None,
    }


def _not_reached(shares: Sequence[Share]) -> Iterator[str]:
    """Yield the blocks for which the night was too short."""
    listed = [
        f"- {share.plan.experiment.name}: block {block}, about {spelled_time(takes.seconds)},"
        f" {takes.basis}"
        for share in shares
        for block, takes in share.not_reached.items()
    ]
    if listed:
        yield "Not reached, for they would not have ended in time; this is no regression:\n"
        yield from listed
        yield ""


def _tables(tonight: Sequence[Results]) -> Iterator[str]:
    for one in tonight:
        yield f"# {one.folders[0].name}\n"
        yield report(one, form="markdown")
        yield report(one, names=["article"], form="markdown")


def _exit_code(shares: Sequence[Share], found: Compared) -> int:
    runs = [share.summary for share in shares if share.summary is not None]
    if found.worse or any(run.exit_code for run in runs):
        return FAILED
    if any(share.refused for share in shares):
        return HostError.exit_code
    unsure = not found.found.judged or "not enough data" in found.found.words
    if unsure or any(share.not_reached for share in shares):
        return NotEnoughData.exit_code
    return DONE
