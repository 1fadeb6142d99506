"""One run held against another of the same cells: two nights, or two results. Pure over frames.

Boots of two runs share no blocks, so what moved the whole machine between them would pass for a
difference. A verdict needs a pinned reference cell (the section `reference`) in the blocks of
both, or ten earlier nights; without either the difference is shown and nothing is called.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from runner.sides.changed import blocking, changes, load_changes
from runner.sides.side import Side
from runner.stats.interval import Interval, LogMean, interval, unequal_tails, unpaired
from runner.stats.nights import Night, between_nights, unresolved
from runner.stats.refusal import Refusal
from runner.stats.verdict import Comparison, Rules, Verdict, verdicts
from runner.tables import Shown
from runner.tables.over_boots import two_groups
from runner.tables.ratio import centre_of
from runner.tables.samples import Sample

History = Mapping[tuple[str, str], Sequence[float]]
"""Cell and load -> the geometric mean of each earlier night, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs of the same cells.

    Attributes:
        experiment: what they answer; empty where there is only one.
        now: the later run; ratios are its figures over the other's.
        then: the earlier one.
        night: name of the earlier night; empty outside of nights.
        history: night means of the nights before `now`.
    """

    experiment: str = ""
    now: Side
    then: Side
    night: str = ""
    history: History = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One load of one cell in two runs, the ratio that is shown, and what may be said of it.

    Attributes:
        pair: the two runs.
        then, now: its figures in both.
        verdict: what may be said.
        ratio: what was judged; where nothing was, the plain ratio, which is shown all the same.
    """

    pair: Pair
    then: Sample
    now: Sample
    verdict: Verdict
    ratio: Interval | Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """How runs differ from earlier ones.

    Attributes:
        judged: each cell and load that both runs of a pair have.
        changes: sentences on what became another build, or was observed to be configured otherwise.
        missing: cells and loads that only one of them has.
        rules: what was declared, with the m of all pairs together.
    """

    judged: Sequence[Judged] = ()
    changes: Sequence[str] = ()
    missing: Sequence[str] = ()
    rules: Rules = field(default_factory=Rules)

    @property
    def words(self) -> set[str]:
        """Return the words that were given."""
        return {one.verdict.word for one in self.judged}


def between(pairs: Sequence[Pair], rules: Rules, *, metric: str) -> Between:
    """Hold runs against earlier ones, cell by cell and load by load, as one family.

    Args:
        pairs: each two runs.
        rules: `m` is set to all that is compared.
        metric: column of `loads`.
    """
    both = [(pair, key) for pair in pairs for key in _common(pair)]
    asked = [_comparison(key, pair, metric) for pair, key in both]
    own = replace(rules, m=max(len(both), 1))
    judged = [
        Judged(
            pair=pair,
            then=pair.then.samples[key],
            now=pair.now.samples[key],
            verdict=_resolved(verdict, pair, key),
            ratio=_ratio(comparison.mean, verdict, key, pair),
        )
        for (pair, key), comparison, verdict in zip(both, asked, verdicts(asked, own), strict=True)
    ]
    return Between(
        judged=judged,
        changes=[change for pair in pairs for change in _changes(pair)],
        missing=[said for pair in pairs for said in _missing(pair)],
        rules=own,
    )


def _resolved(verdict: Verdict, pair: Pair, key: tuple[str, str]) -> Verdict:
    """Return a verdict; none within less than the brackets of searches, or the A/A, resolve."""
    load, reach = key[1], _reach(pair, key)
    if reach is not None and _is_within(verdict, reach):
        reason = (
            f"brackets of the searches leave {100 * (reach - 1):.3g} % open: lower within_ratio"
        )
        return replace(verdict, word="not enough data", reason=reason, needed_boots=None)
    if verdict.word != "equal" or verdict.margin is None:
        return verdict
    same = [side.floors[load] for side in (pair.now, pair.then) if load in side.floors]
    refused = [found for one in same if (found := unresolved(verdict.margin, one)) is not None]
    if not refused:
        return verdict
    return replace(verdict, word="not enough data", reason=refused[0].reason, needed_boots=None)


def _reach(pair: Pair, key: tuple[str, str]) -> float | None:
    """Return the factor that the brackets of two searches leave open; None for other loads.

    Each search knows its capacity up to its bracket, and so does that of the pinned cell, against
    which a night's is taken: the two widths of the runs together.
    """
    widths = [side.samples[key].width_ratio for side in (pair.now, pair.then)]
    known = [width for width in widths if width is not None]
    return math.prod(1 + width for width in known) if known else None


def _is_within(verdict: Verdict, reach: float) -> bool:
    """Tell whether a verdict rests on less than what brackets leave open."""
    found = verdict.interval
    if verdict.word == "equal":
        return verdict.margin is not None and 1 + verdict.margin < reach
    if verdict.word not in {"better", "worse"} or not isinstance(found, Interval):
        return False
    return found.low / reach <= 1 <= found.high * reach


def table(found: Between, names: tuple[str, str], metric: str) -> Shown | None:
    """Return the comparison as a table.

    Args:
        found: the comparison.
        names: what the earlier and the later run are called.
        metric: column of `loads`.
    """
    if not found.judged:
        return None
    margin = found.rules.margin
    equal = f"; equal within {100 * margin:g} %" if margin is not None else ""
    said = (
        f"{metric}: ratio of geometric means, {names[1]} over {names[0]}; Holm over m ="
        f" {found.rules.m}{equal}. Boots of two runs are never pooled."
    )
    if any(one.now.searched for one in found.judged):
        said += " Of a search: its capacity, more is better."
    frame = pd.DataFrame([_row(one, names) for one in found.judged])
    return Shown(frame=frame, above=[*found.changes, *found.missing, said])


def _common(pair: Pair) -> list[tuple[str, str]]:
    now, then = pair.now, pair.then
    return [key for key in now.samples if key in then.samples and key[0] != now.reference]


def _row(one: Judged, names: tuple[str, str]) -> dict[str, Any]:
    least = min(len(one.then.by_block), len(one.now.by_block))
    return {
        "cell": ": ".join(word for word in (one.pair.experiment, one.now.label) if word),
        "load": one.now.load,
        names[0]: one.then.figures,
        names[1]: one.now.figures,
        f"ratio [{100 * one.verdict.level:.3g} %]": centre_of(one.ratio, least),
        "verdict": told(one.verdict),
    }


def told(verdict: Verdict) -> str:
    """Return a verdict in words; what is missing where there is not enough data."""
    if verdict.word == "equal":
        return f"equal within {100 * (verdict.margin or 0):g} %"
    if verdict.word != "not enough data":
        return f"{verdict.word} (p = {verdict.p_holm:.2g})"
    return "; ".join([f"not enough data: {verdict.reason}", *_more(verdict.needed_boots)])


def _more(needed: tuple[int, int] | None) -> Iterator[str]:
    if needed is not None:
        low, high = needed
        yield f"{low if low == high else f'{low} to {high}'} more boots of each"


def _comparison(key: tuple[str, str], pair: Pair, metric: str) -> Comparison:
    name = f"{pair.now.samples[key].label} {key[1]}"
    mean = _mean(key, pair, metric)
    groups = _groups(key, pair) if isinstance(mean, LogMean) else ""
    higher = True if pair.now.samples[key].searched else None
    return Comparison(name=name, mean=mean, doubt=groups, higher_is_better=higher)


def _groups(key: tuple[str, str], pair: Pair) -> str:
    """Return the words of two groups of boots that no fact explains, of either run."""
    for side, which in ((pair.now, "later"), (pair.then, "earlier")):
        said = two_groups(list(side.samples[key].by_block.values()))
        if said:
            return f"the {which} run shows {said}"
    return ""


def _mean(key: tuple[str, str], pair: Pair, metric: str) -> LogMean | Refusal:
    now, then = pair.now, pair.then
    mine, other = now.samples[key], then.samples[key]
    if not mine.by_block or not other.by_block:
        return _refused("one run has no figure")
    for side, which in ((now, "later"), (then, "earlier")):
        if side.kinds[key[0]].several:
            return _refused(f"the boots of the {which} run are of several kinds")
    changed = [*blocking(now, then, key[0]), *load_changes(now, then, key[1])]
    if changed:
        return _refused(f"not comparable, for these changed: {', '.join(changed)}")
    if metric.endswith("_p99_s") and not mine.searched:
        tails = unequal_tails(mine.requests, other.requests)
        if tails is not None:
            return tails
    moved = pinned_changes(pair)
    same = now.reference is not None and now.reference == then.reference and not moved
    found = between_nights(
        _night(key, now) if same else None,
        _night(key, then) if same else None,
        list(mine.by_block.values()),
        pair.history.get(key, ()),
    )
    if isinstance(found, Refusal) and moved:
        return _refused(f"the pinned cell itself changed: {', '.join(moved)}")
    return found


def pinned_changes(pair: Pair) -> list[str]:
    """Return what changed of the pinned cell itself; a driver is the machine's, not the cell's."""
    name = pair.now.reference
    parts = changes(pair.now, pair.then).get(name, []) if name else []
    return [part for part in parts if not part.startswith("driver ")]


def _night(key: tuple[str, str], side: Side) -> Night | None:
    """Return a cell's boots and the reference cell's in the same blocks."""
    reference = side.samples.get((side.reference or "", key[1]))
    if reference is None:
        return None
    cell, pinned = side.samples[key].by_block, reference.by_block
    blocks = sorted(cell.keys() & pinned.keys())
    return Night(cell=[cell[b] for b in blocks], reference=[pinned[b] for b in blocks])


def _ratio(
    mean: LogMean | Refusal, verdict: Verdict, key: tuple[str, str], pair: Pair
) -> Interval | Refusal:
    """Return the ratio that was judged; else the plain one, which is shown and not judged."""
    if isinstance(mean, LogMean):
        return verdict.interval
    if "not comparable" in mean.reason or "several kinds" in mean.reason:
        return mean
    ours, theirs = (list(side.samples[key].by_block.values()) for side in (pair.now, pair.then))
    return interval(unpaired(ours, theirs)) if ours and theirs else mean


def _changes(pair: Pair) -> Iterator[str]:
    """Yield what changed of each cell, and of each load."""
    for name, parts in changes(pair.now, pair.then).items():
        who = ": ".join(word for word in (pair.experiment, pair.now.observed[name].cell) if word)
        yield f"{who} changed: {', '.join(parts)}."
    for load in pair.now.asked:
        parts = load_changes(pair.now, pair.then, load)
        if parts:
            who = ": ".join(word for word in (pair.experiment, load) if word)
            yield f"{who} asks otherwise: {', '.join(parts)}."


def _missing(pair: Pair) -> Iterator[str]:
    now, then = pair.now, pair.then
    for one, other, word in ((now, then, "earlier"), (then, now, "later")):
        alone = [sample for key, sample in one.samples.items() if key not in other.samples]
        listed = ", ".join(f"{sample.label} {sample.load}" for sample in alone)
        if listed:
            of = f" of {pair.experiment}" if pair.experiment else ""
            yield f"Not in the {word} run{of}: {listed}."


def _refused(reason: str) -> Refusal:
    return Refusal(method="ratio of two runs", n=0, reason=reason)
