"""The page of one night: what ran, what changed since earlier nights, and all tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from runner.between import Between, Judged, Pair, between, table
from runner.errors import DONE, FAILED, HostError, NotEnoughData
from runner.experiment.night import NightKeys
from runner.frames import Results, results
from runner.night_history import earlier, since
from runner.night_share import Share
from runner.plan.text import spelled_time
from runner.report import labels, report
from runner.side import side_of
from runner.stats.changes import Change
from runner.stats.interval import Interval
from runner.stats.verdict import Rules
from runner.tables.columns import wanted
from runner.tables.grid import grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A night on one page.

    Attributes:
        name: of the night.
        headline: the night in one sentence.
        head: the first part: what ran, and how it differs from earlier nights.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """Tonight against earlier nights.

    Attributes:
        found: against the last night.
        night: its name.
        changes: who, since when, and whether it is for the worse.
    """

    found: Between
    night: str
    changes: Sequence[tuple[str, Change, bool]]

    @property
    def worse(self) -> list[str]:
        """Return what is worse than it was, in words."""
        now = [_told(one) for one in self.found.judged if one.verdict.word == "worse"]
        return now + [f"{who} {change}" for who, change, is_worse in self.changes if is_worse]


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
    compared = _compared(tonight, keys, folder)
    headline = _headline(shares, compared)
    said = list(dict.fromkeys(line for one in tonight for line in labels(one)))
    head = [f"# Night {name}", "", headline, "", *said, "", "## What ran", "", _ran(shares)]
    head += ["", *_not_reached(shares), "## Against earlier nights", "", *_between(compared, keys)]
    return Page(
        name=name,
        headline=headline,
        head="\n".join(head) + "\n",
        exit_code=_exit_code(shares, compared),
        tonight=tonight,
    )


def _compared(tonight: Sequence[Results], keys: NightKeys, folder: Path) -> _Compared:
    pairs, changes, night = [], [], ""
    higher = keys.metric.endswith("_per_s")
    for now in tonight:
        experiment, [run] = now.folders[0].name, now.runs or ()
        before = earlier(folder, experiment, run, keys.metric)
        side = side_of(now, keys.metric)
        if before.last is not None:
            then = side_of(before.last, keys.metric)
            pairs.append(Pair(experiment=experiment, now=side, then=then, history=before.means))
            night = max(night, before.night)
        for (cell, load), change in since(before.series, keys.margin_ratio).items():
            if isinstance(change, Change):
                who = f"{experiment}: {side.samples[(cell, load)].label} {load}"
                changes.append((who, change, (change.ratio > 1) != higher))
    rules = Rules(margin=keys.margin_ratio, higher_is_better=higher)
    found = between(pairs, rules, metric=keys.metric)
    return _Compared(found=found, night=night, changes=changes)


def _headline(shares: Sequence[Share], compared: _Compared) -> str:
    if compared.worse:
        return f"REGRESSION: {'; '.join(compared.worse)}."
    words = [one.verdict.word for one in compared.found.judged]
    judged = [word for word in words if word != "not enough data"]
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    verdict = f"No regression among {len(judged)} verdicts" if judged else "No verdict"
    against = counts or "nothing to hold this night against yet"
    left = sum(len(share.not_reached) for share in shares)
    missing = f"; {left} blocks not reached, which is no regression" if left else ""
    refused = [share.plan.experiment.name for share in shares if share.refused]
    out = f"; left out: {', '.join(refused)}" if refused else ""
    return f"{verdict}: {against}{missing}{out}."


def _ran(shares: Sequence[Share]) -> str:
    return grid(pd.DataFrame([_share(share) for share in shares]), "github")


def _share(share: Share) -> dict[str, Any]:
    run = share.summary
    return {
        "experiment": share.plan.experiment.name,
        "run": run.run_id if run else None,
        "boots stored": f"{run.stored if run else 0} of {len(share.plan.boots)}",
        "started now": share.started,
        "failed": run.unexpected if run else 0,
        "void loads": run.void_loads if run else 0,
        "left out because": share.refused,
    }


def _not_reached(shares: Sequence[Share]) -> Iterator[str]:
    """Yield the blocks for which the night was too short."""
    listed = [
        f"- {share.plan.experiment.name}: block {block}, about {spelled_time(takes_s)}"
        for share in shares
        for block, takes_s in share.not_reached.items()
    ]
    if listed:
        yield "Not reached, for they would not have ended in time; this is no regression:\n"
        yield from listed
        yield ""


def _between(compared: _Compared, keys: NightKeys) -> Iterator[str]:
    shown = table(compared.found, (f"night {compared.night}", "tonight"), keys.metric)
    if shown is None:
        yield "No earlier night has these cells: there is nothing to hold this one against.\n"
        return
    for line in shown.above:
        yield f"{line}\n"
    yield grid(shown.frame, "github")
    yield ""
    for who, change, _ in compared.changes:
        yield f"- {who}: {change} ({change.method}, p = {change.p:.1g})"
    yield ""


def _tables(tonight: Sequence[Results]) -> Iterator[str]:
    for one in tonight:
        yield f"# {one.folders[0].name}\n"
        yield report(one, form="markdown")
        yield report(one, names=["article"], form="markdown")


def _told(one: Judged) -> str:
    ratio = one.ratio
    limits = (
        f" is {ratio.centre:.3f} [{ratio.low:.3f} - {ratio.high:.3f}] of what it was"
        if isinstance(ratio, Interval)
        else ""
    )
    return f"{one.experiment}: {one.now.label} {one.now.load}{limits}"


def _exit_code(shares: Sequence[Share], compared: _Compared) -> int:
    runs = [share.summary for share in shares if share.summary is not None]
    if compared.worse or any(run.exit_code for run in runs):
        return FAILED
    if any(share.refused for share in shares):
        return HostError.exit_code
    unsure = not compared.found.judged or "not enough data" in compared.found.words
    if unsure or any(share.not_reached for share in shares):
        return NotEnoughData.exit_code
    return DONE
