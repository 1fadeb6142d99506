"""One run held against another of the same cells: two nights, or two results. Pure over frames.

Boots of two runs share no blocks, so what moved the whole machine between them would pass for a
difference. A verdict needs a pinned reference cell (the section `reference`) in the blocks of
both, or ten earlier nights; without either the difference is shown and nothing is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import pandas as pd

from runner.alignment import Observed, aligned, shown
from runner.frames import Results
from runner.stats.interval import Interval, LogMean, interval, unequal_tails, unpaired
from runner.stats.nights import Night, between_nights
from runner.stats.refusal import Refusal
from runner.stats.verdict import Comparison, Rules, Verdict, verdicts
from runner.tables import Shown
from runner.tables.alignment import observed
from runner.tables.comparison import centre_of
from runner.tables.kinds import KEY, Kinds, kinds_of
from runner.tables.over_boots import complete, records
from runner.tables.runs import cells_of
from runner.tables.samples import Sample, samples

REFERENCE: Final = "reference"
"""Section of the pinned cell: an image by digest that stays the same from night to night."""

_BUILD: Final = {
    "image": "image_digest",
    "model build": "model_build",
    "driver": "driver",
    "version": "version",
}
By = Literal["cell_id", "label"]
History = Mapping[tuple[str, str], Sequence[float]]
"""Cell and load -> the geometric mean of each earlier night, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One run; a cell is known by what it asks or by its label, never by its run.

    Attributes:
        samples: by cell and load.
        kinds: kinds of boots of each cell.
        observed: what each cell was seen to be.
        build: parts of what each cell became, by name.
        reference: its pinned cell; None without one.
    """

    samples: Mapping[tuple[str, str], Sample]
    kinds: Mapping[str, Kinds]
    observed: Mapping[str, Observed]
    build: Mapping[str, Mapping[str, str]]
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """How two runs differ.

    Attributes:
        verdicts: of each cell and load that both have, beside its two samples, then and now.
        changes: sentences on what became another build, or was observed to be configured otherwise.
        missing: cells and loads that only one of them has.
    """

    verdicts: Sequence[tuple[Sample, Sample, Verdict, Interval | Refusal]] = ()
    changes: Sequence[str] = ()
    missing: Sequence[str] = ()
    rules: Rules = field(default_factory=Rules)

    @property
    def words(self) -> set[str]:
        """Return the words that were given."""
        return {verdict.word for _, _, verdict, _ in self.verdicts}


def side_of(results: Results, metric: str, *, by: By = "cell_id") -> Side:
    """Return what one run holds, its cells known by what they ask or by their labels."""
    boots = complete(results)
    kinds = kinds_of(boots, results)
    cells = cells_of(results)
    name = {key: str(cell[by]) for key, cell in cells.items()}
    groups: Any = boots.groupby(KEY)
    pinned = [name[key] for key, cell in cells.items() if cell["name"] == REFERENCE]
    return Side(
        samples={(name[key], load): one for (key, load), one in samples(results, metric).items()},
        kinds={name[key]: one for key, one in kinds.items()},
        observed={name[key]: one for key, one in observed(results).items()},
        build={name[key]: _built(own) for key, own in groups},
        reference=pinned[0] if pinned else None,
    )


def between(
    now: Side, then: Side, rules: Rules, *, metric: str, history: History | None = None
) -> Between:
    """Hold one run against an earlier one, cell by cell and load by load.

    Args:
        now: the later run; ratios are its figures over the other's.
        then: the earlier one.
        rules: `m` is set to what is compared.
        metric: column of `loads`.
        history: night means of the nights before `now`.
    """
    both = [key for key in now.samples if key in then.samples and key[0] != now.reference]
    asked = [_comparison(key, now, then, metric, (history or {}).get(key, ())) for key in both]
    own = Rules(
        m=max(len(both), 1),
        margin=rules.margin,
        looks=rules.looks,
        higher_is_better=rules.higher_is_better,
    )
    judged = verdicts(asked, own)
    return Between(
        verdicts=[
            (then.samples[key], now.samples[key], verdict, _ratio(asked[n].mean, key, now, then))
            for n, (key, verdict) in enumerate(zip(both, judged, strict=True))
        ],
        changes=list(_changes(now, then)),
        missing=list(_missing(now, then)),
        rules=own,
    )


def table(found: Between, names: tuple[str, str], metric: str) -> Shown | None:
    """Return the comparison as a table.

    Args:
        found: the comparison.
        names: what the earlier and the later run are called.
        metric: column of `loads`.
    """
    if not found.verdicts:
        return None
    rows = [_row(*one, names) for one in found.verdicts]
    margin = found.rules.margin
    equal = f"; equal within {100 * margin:g} %" if margin is not None else ""
    said = (
        f"{metric}: ratio of geometric means, {names[1]} over {names[0]}; Holm over m ="
        f" {found.rules.m}{equal}. Boots of two runs are never pooled."
    )
    return Shown(frame=pd.DataFrame(rows), above=[*found.changes, *found.missing, said])


def _row(
    then: Sample,
    now: Sample,
    verdict: Verdict,
    ratio: Interval | Refusal,
    names: tuple[str, str],
) -> dict[str, Any]:
    return {
        "cell": now.label,
        "load": now.load,
        names[0]: then.figures,
        names[1]: now.figures,
        f"ratio [{100 * verdict.level:.3g} %]": centre_of(
            ratio, min(len(then.by_block), len(now.by_block))
        ),
        "verdict": _told(verdict),
    }


def _told(verdict: Verdict) -> str:
    if verdict.word == "equal":
        return f"equal within {100 * (verdict.margin or 0):g} %"
    if verdict.word != "not enough data":
        return f"{verdict.word} (p = {verdict.p_holm:.2g})"
    more = verdict.needed_boots
    count = (
        f"{more[0]}" if more and more[0] == more[1] else f"{more[0]} to {more[1]}" if more else ""
    )
    boots = f"; {count} more boots of each" if more else ""
    return f"not enough data: {verdict.reason}{boots}"


def _comparison(
    key: tuple[str, str], now: Side, then: Side, metric: str, history: Sequence[float]
) -> Comparison:
    name = f"{now.samples[key].label} {key[1]}"
    return Comparison(name=name, mean=_mean(key, now, then, metric, history))


def _mean(
    key: tuple[str, str], now: Side, then: Side, metric: str, history: Sequence[float]
) -> LogMean | Refusal:
    mine, other = now.samples[key], then.samples[key]
    if not mine.by_block or not other.by_block:
        return _refused("one run has no figure")
    for side, which in ((now, "later"), (then, "earlier")):
        if side.kinds[key[0]].several:
            return _refused(f"the boots of the {which} run are of several kinds")
    blocking = [
        one.rule.name
        for one in aligned(now.observed[key[0]], then.observed[key[0]])
        if one.judged == "differs" and one.rule.blocks
    ]
    if blocking:
        return _refused(f"not comparable, for these changed: {', '.join(blocking)}")
    if metric.endswith("_p99_s"):
        tails = unequal_tails(mine.requests, other.requests)
        if tails is not None:
            return tails
    same = now.reference == then.reference
    return between_nights(
        _night(key, now) if same else None,
        _night(key, then) if same else None,
        list(mine.by_block.values()),
        history,
    )


def _night(key: tuple[str, str], side: Side) -> Night | None:
    """Return a cell's boots and the reference cell's in the same blocks."""
    reference = side.samples.get((side.reference or "", key[1]))
    if reference is None:
        return None
    cell, pinned = side.samples[key].by_block, reference.by_block
    blocks = sorted(cell.keys() & pinned.keys())
    return Night(cell=[cell[b] for b in blocks], reference=[pinned[b] for b in blocks])


def _ratio(
    mean: LogMean | Refusal, key: tuple[str, str], now: Side, then: Side
) -> Interval | Refusal:
    """Return the ratio that was judged; else the plain one, which is shown and not judged."""
    if isinstance(mean, LogMean):
        return interval(mean)
    if "not comparable" in mean.reason or "several kinds" in mean.reason:
        return mean
    figures = [list(side.samples[key].by_block.values()) for side in (now, then)]
    return interval(unpaired(figures[0], figures[1])) if all(figures) else mean


def _changes(now: Side, then: Side) -> Iterator[str]:
    """Yield what changed of each cell: its build, and what its servers were observed to be."""
    for cell_id, mine in now.observed.items():
        if cell_id not in then.observed:
            continue
        built, before = now.build[cell_id], then.build[cell_id]
        parts = [
            f"{name} ({before[name]} became {built[name]})"
            for name in _BUILD
            if built[name] != before[name]
        ]
        parts += [
            f"{one.rule.name} ({shown(one.theirs) or 'unknown'} became {shown(one.ours)})"
            for one in aligned(mine, then.observed[cell_id])
            if one.judged == "differs" and set(one.ours) != set(one.theirs)
        ]
        if parts:
            yield f"{mine.cell} changed: {', '.join(parts)}."


def _missing(now: Side, then: Side) -> Iterator[str]:
    for one, other, word in ((now, then, "earlier"), (then, now, "later")):
        alone = [sample for key, sample in one.samples.items() if key not in other.samples]
        listed = ", ".join(f"{sample.label} {sample.load}" for sample in alone)
        if listed:
            yield f"Not in the {word} run: {listed}."


def _built(boots: pd.DataFrame) -> dict[str, str]:
    rows = records(boots)
    return {
        name: ", ".join(dict.fromkeys(str(row[column] or "unknown")[:19] for row in rows))
        for name, column in _BUILD.items()
    }


def _refused(reason: str) -> Refusal:
    return Refusal(method="ratio of two runs", n=0, reason=reason)
