"""A night against earlier nights: verdicts, changes since some night, and what was configured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from runner.experiment.night import NightKeys
from runner.nights.belief import Seen, doubts_seen, of_figure, of_verdict
from runner.nights.history import Cell, Series, Since, earlier
from runner.sides.between import Between, Judged, Pair, between, pinned_changes, told
from runner.sides.changed import changes
from runner.sides.side import Side, side_of
from runner.stats.interval import Interval, interval, unpaired
from runner.stats.verdict import Rules
from runner.stored.frames import Results
from runner.tables.brackets import centre, extremes
from runner.tables.ratio import centre_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OfExperiment:
    """Tonight's run of one experiment.

    Attributes:
        name: the experiment.
        side: what it holds.
        doubts: on each of its loads.
        since: changes that two nights running have shown.
        means: mean of each earlier night.
    """

    name: str
    side: Side
    doubts: dict[Cell, Seen]
    since: dict[Cell, Since]
    means: dict[Cell, Series]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Tonight against earlier nights.

    Attributes:
        found: against one earlier night of each experiment.
        tonight: each experiment's run.
        higher_is_better: throughput, or latency.
    """

    found: Between
    tonight: Sequence[OfExperiment]
    higher_is_better: bool

    @property
    def worse(self) -> list[str]:
        """Return what is worse than it was, in words, with what was configured otherwise."""
        now = [_moved(one) for one in self.found.judged if one.verdict.word == "worse"]
        return now + [said for said, better in self.since if not better]

    @property
    def since(self) -> list[tuple[str, bool]]:
        """Return each change that two nights have shown, and whether it is for the better."""
        return [
            (
                f"{one.name}: {one.side.samples[cell].label} {cell[1]} {since.told}",
                (since.change.ratio > 1)
                == (self.higher_is_better or one.side.samples[cell].searched),
            )
            for one in self.tonight
            for cell, since in one.since.items()
        ]

    @property
    def pinned(self) -> Iterator[str]:
        """Yield how the pinned cells moved: that is the machine, not what is tested."""
        for pair in dict.fromkeys(one.pair.experiment for one in self.found.judged):
            own = next(one.pair for one in self.found.judged if one.pair.experiment == pair)
            yield from _pinned(own)


def compared(tonight: Sequence[Results], keys: NightKeys, folder: Path) -> Compared:
    """Hold tonight's runs against earlier nights.

    Args:
        tonight: one run of each experiment.
        keys: how nights are judged.
        folder: folder of all results.
    """
    pairs, each = [], []
    for now in tonight:
        experiment, [run] = now.folders[0].name, now.runs or ()
        before = earlier(folder, experiment, run, keys.metric)
        side = side_of(now, keys.metric)
        seen = {(key[2], load): found for (key, load), found in doubts_seen(now).items()}
        since = before.since(keys.metric, keys.margin_ratio)
        each.append(
            OfExperiment(
                name=experiment, side=side, doubts=seen, since=since, means=dict(before.means)
            )
        )
        if before.last:
            history = {cell: list(means.values()) for cell, means in before.means.items()}
            then = side_of(before.results_of(before.last), keys.metric)
            pairs.append(
                Pair(experiment=experiment, now=side, then=then, night=before.last, history=history)
            )
    higher = keys.metric.endswith("_per_s")
    rules = Rules(margin=keys.margin_ratio, higher_is_better=higher)
    found = between(pairs, rules, metric=keys.metric)
    return Compared(found=found, tonight=each, higher_is_better=higher)


def verdict_rows(compared: Compared) -> pd.DataFrame:
    """Return a row for each figure that an earlier night has too, with what it is worth."""
    of_name = {one.name: one for one in compared.tonight}
    return pd.DataFrame([_row(one, of_name[one.pair.experiment]) for one in compared.found.judged])


def figure_rows(compared: Compared) -> pd.DataFrame:
    """Return a row for each figure of tonight, with what it is worth by itself."""
    rows = []
    for one in compared.tonight:
        for (cell, load), sample in one.side.samples.items():
            kinds = one.side.kinds[cell]
            beside = extremes if kinds.many else centre
            figures = sample.figures
            seen = one.doubts.get((cell, load), {})
            rows.append(
                {
                    "figure": f"{one.name}: {sample.label} {load}",
                    "each boot": figures,
                    "median [range]": None if kinds.several and not kinds.many else beside(figures),
                    "believe it?": of_figure(sample, kinds, seen),
                }
            )
    return pd.DataFrame(rows)


def _row(one: Judged, tonight: OfExperiment) -> dict[str, Any]:
    cell = (one.now.key[2], one.now.load)
    least = min(len(one.then.by_block), len(one.now.by_block))
    return {
        "figure": f"{one.pair.experiment}: {one.now.label} {one.now.load}",
        "verdict": told(one.verdict),
        f"ratio [{100 * one.verdict.level:.3g} %]": centre_of(one.ratio, least),
        "believe it?": of_verdict(one, tonight.doubts.get(cell, {})),
        "held against": f"night {one.pair.night}",
        "then": one.then.figures,
        "tonight": one.now.figures,
        "means of earlier nights": _means(tonight.means.get(cell, {})),
    }


def _means(means: Series) -> str | None:
    if not means:
        return None
    low, high, middle = min(means.values()), max(means.values()), median(means.values())
    return f"{len(means)}: {middle:.4g} [{low:.4g} - {high:.4g}]"


def _moved(one: Judged) -> str:
    ratio = one.ratio
    limits = (
        f" is {ratio.centre:.3f} [{ratio.low:.3f} - {ratio.high:.3f}] of what it was"
        if isinstance(ratio, Interval)
        else ""
    )
    parts = changes(one.pair.now, one.pair.then).get(one.now.key[2], [])
    also = f", and this changed: {', '.join(parts)}" if parts else ""
    return f"{one.pair.experiment}: {one.now.label} {one.now.load}{limits}{also}"


def _pinned(pair: Pair) -> Iterator[str]:
    """Yield how the pinned cell stands to the other night's, at each load."""
    name = pair.now.reference
    if name is None or name != pair.then.reference:
        yield (
            f"{pair.experiment}: no pinned cell in both nights, so the machine itself may have"
            " moved; only ten earlier nights could tell."
        )
    elif pinned_changes(pair):
        yield (
            f"{pair.experiment}: the pinned cell changed, so nothing can be taken against it; pin"
            " its image by digest, and its version."
        )
    else:
        yield from _stands(pair, name)


def _stands(pair: Pair, name: str) -> Iterator[str]:
    for key, mine in pair.now.samples.items():
        other = pair.then.samples.get(key)
        if key[0] != name or other is None or not (mine.by_block and other.by_block):
            continue
        ratio = interval(unpaired(list(mine.by_block.values()), list(other.by_block.values())))
        if isinstance(ratio, Interval):
            moved = "did not visibly move" if ratio.low <= 1 <= ratio.high else "itself moved"
            yield (
                f"{pair.experiment} {key[1]}: the pinned cell stands at {ratio.centre:.3f}"
                f" [{ratio.low:.3f} - {ratio.high:.3f}] of night {pair.night}: the machine {moved};"
                " ratios below are taken against it."
            )
