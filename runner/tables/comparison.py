"""Declared pairs of cells, judged: better, worse, equal within x %, or how many boots are missing.

The ratio is of geometric means over boots, paired by block as the plan laid them out, with a t
interval on log ratios. Verdicts are Holm's over all comparisons that the experiment declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from runner.nights.expected import PHASES
from runner.sides.alignment import Observed, aligned, sentence
from runner.stats.design import Spread, gpu_minutes, past_spread
from runner.stats.interval import LogMean, interval, paired, pairs, unequal_tails
from runner.stats.nights import unresolved
from runner.stats.refusal import Refusal
from runner.stats.verdict import Comparison, Rules, Verdict, verdicts
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.aa import floors
from runner.tables.agreements import agreements
from runner.tables.alignment import observed
from runner.tables.declared import Declared, declared
from runner.tables.kinds import KEY, Key, Kinds
from runner.tables.measured import complete, kinds_by_cell
from runner.tables.over_boots import two_groups
from runner.tables.ratio import centre_of, percent
from runner.tables.runs import cells_of, labels_of, runs_of
from runner.tables.samples import Sample, Samples, samples

_EARLIER: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One declared comparison.

    Attributes:
        name: `ours / theirs`.
        load: id of the load.
        ours, theirs: their samples; None where no boot has that load.
        mean: the mean log ratio over blocks, or why there is none.
        doubt: what forbids a verdict though there are figures.
    """

    name: str
    load: str
    ours: Sample | None
    theirs: Sample | None
    mean: LogMean | Refusal
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of all cells of some results.

    Attributes:
        samples: by cell and load, of the metric that is compared.
        kinds: kinds of boots of each cell.
        observed: what each cell was seen to be.
        block_s: seconds that one boot of each cell takes.
        gpus: GPUs of each cell.
        wrong: pairs of cells of one model whose answers do not even begin alike.
    """

    samples: Samples
    kinds: Mapping[Key, Kinds]
    observed: Mapping[Key, Observed]
    block_s: Mapping[Key, float]
    gpus: Mapping[Key, int]
    wrong: frozenset[tuple[Key, Key]]


def build(results: Results) -> Shown | None:
    """Show each declared pair at each load with its ratio, interval and verdict."""
    rows: list[dict[str, Any]] = []
    above: list[str] = []
    doubts: dict[str, list[str]] = {}
    of_metric: dict[str, Known] = {}
    for experiment, run in runs_of(results):
        said = declared(results, experiment, run)
        metric = said.compare.metric
        if not said.pairs or not said.loads:
            continue
        if metric not in of_metric:
            of_metric[metric] = _known(results, metric)
        known = of_metric[metric]
        cases = list(_cases(said, labels_of(results, experiment, run), known))
        if not any(case.ours or case.theirs for case in cases):
            continue
        judged, refused = _judged(cases, said, results, (experiment, run))
        above += [
            *_alignment(cases, known),
            _family(said, several=len(runs_of(results)) > 1, run=run),
            *refused,
        ]
        for case, verdict in zip(cases, judged, strict=True):
            rows += _rows(case, verdict, known)
            for name, seen in _doubts(case, known).items():
                doubts.setdefault(name, []).extend(seen)
    if not rows:
        return None
    return Shown(frame=pd.DataFrame(rows), above=list(dict.fromkeys(above)), doubts=doubts)


def _known(results: Results, metric: str) -> Known:
    boots = complete(results)
    timed = boots.assign(took_s=boots[list(PHASES)].sum(axis=1))
    groups: Any = timed.groupby(KEY)
    took: dict[Key, float] = {key: float(own.took_s.median()) for key, own in groups}
    return Known(
        samples=samples(results, metric),
        kinds=kinds_by_cell(results),
        observed=observed(results),
        block_s=took,
        gpus={key: int(cell["gpus"] or 0) for key, cell in cells_of(results).items()},
        wrong=frozenset((o.ours, o.theirs) for o in agreements(results) if o.differs),
    )


def _cases(said: Declared, labels: Mapping[str, Key], known: Known) -> Iterator[Case]:
    for pair in said.pairs:
        for load in said.loads:
            ours, theirs = (known.samples.get((labels[label], load)) for label in pair)
            yield _case(pair, load, ours, theirs, known, said)


def _case(
    pair: tuple[str, str],
    load: str,
    ours: Sample | None,
    theirs: Sample | None,
    known: Known,
    said: Declared,
) -> Case:
    mean = _mean(pair, ours, theirs, known, said)
    doubt = _split(ours, theirs) if isinstance(mean, LogMean) else ""
    return Case(
        name=f"{pair[0]} / {pair[1]}", load=load, ours=ours, theirs=theirs, mean=mean, doubt=doubt
    )


def _mean(
    pair: tuple[str, str],
    ours: Sample | None,
    theirs: Sample | None,
    known: Known,
    said: Declared,
) -> LogMean | Refusal:
    for label, side in zip(pair, (ours, theirs), strict=True):
        if side is None or not side.by_block:
            return _refused(f"{label} has no figure at this load")
    assert ours is not None  # noqa: S101 - told above
    assert theirs is not None  # noqa: S101
    for side in (ours, theirs):
        if known.kinds[side.key].several:
            count = len(known.kinds[side.key].kinds)
            return _refused(f"boots of {side.cell} are of {count} kinds: see each kind")
    if "not comparable" in _sentence(ours, theirs, known):
        return _refused("not comparable, see above")
    if said.compare.metric.endswith("_p99_s"):
        tails = unequal_tails(ours.requests, theirs.requests)
        if tails is not None:
            return tails
    return paired(*pairs(ours.by_block, theirs.by_block))


def _refused(reason: str) -> Refusal:
    return Refusal(method="ratio of geometric means, paired t", n=0, reason=reason)


def _split(ours: Sample | None, theirs: Sample | None) -> str:
    """Return the words of two groups that no fact explains, of either side."""
    for side in (ours, theirs):
        said = two_groups(list(side.by_block.values())) if side is not None else ""
        if side is not None and said:
            return f"{side.cell} shows {said}"
    return ""


def _judged(
    cases: Sequence[Case], said: Declared, results: Results, run: tuple[str, str]
) -> tuple[list[Verdict], list[str]]:
    """Return a verdict for each case, and where an A/A forbids the declared margin.

    Past runs tell the spread where these boots are too few.
    """
    rules = Rules(
        m=max(said.m, len(cases)),
        margin=said.margin_ratio,
        looks=said.compare.looks,
        higher_is_better=said.compare.metric.endswith("_per_s"),
    )
    asked = [Comparison(name=case.name, mean=case.mean, doubt=case.doubt) for case in cases]
    found = verdicts(asked, rules)
    short = [v.word == "not enough data" and v.n < 5 and v.needed_boots for v in found]
    if any(short):
        past = _past(cases, said, results, run)
        asked = [replace(one, past=past.get(number)) for number, one in enumerate(asked)]
        found = verdicts(asked, rules)
    refused = _unresolved(said, results, run)
    without = verdicts(asked, replace(rules, margin=None)) if refused else found
    each = zip(cases, found, without, strict=True)
    judged = [other if case.load in refused else one for case, one, other in each]
    return judged, [f"At {load} {reason}." for load, reason in refused.items()]


def _unresolved(said: Declared, results: Results, run: tuple[str, str]) -> dict[str, str]:
    """Return the loads at which an A/A of the same run is wider than the declared margin."""
    if said.margin_ratio is None:
        return {}
    same = floors(results, *run, said.compare.metric)
    found = {load: unresolved(said.margin_ratio, one) for load, one in same.items()}
    return {load: refusal.reason for load, refusal in found.items() if refusal is not None}


def _past(
    cases: Sequence[Case], said: Declared, results: Results, run: tuple[str, str]
) -> dict[int, Spread]:
    """Return the spread of each case's log ratio within earlier runs of the same experiment."""
    [folder] = [folder for folder in results.folders if folder.name == run[0]]
    runs = sorted(path.stem for path in (folder / "runs").glob("*.json") if path.stem < run[1])
    if not runs:
        return {}
    earlier = replace(results, folders=[folder], runs=runs[-_EARLIER:], unreadable=[])
    then = samples(earlier, said.compare.metric)
    found = {}
    for number, case in enumerate(cases):
        ratios = [_ratios(case, then, one) for one in runs[-_EARLIER:]]
        spread = past_spread(f"{len(runs[-_EARLIER:])} earlier runs", [r for r in ratios if r])
        if not isinstance(spread, Refusal) and spread.sd > 0:
            found[number] = spread
    return found


def _ratios(case: Case, then: Samples, run: str) -> list[float]:
    if case.ours is None or case.theirs is None:
        return []
    sides = [
        then.get(((side.key[0], run, side.key[2]), case.load)) for side in (case.ours, case.theirs)
    ]
    if sides[0] is None or sides[1] is None:
        return []
    ours, theirs = pairs(sides[0].by_block, sides[1].by_block)
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def _sentence(ours: Sample, theirs: Sample, known: Known) -> str:
    return sentence(known.observed[ours.key], known.observed[theirs.key])


def _alignment(cases: Sequence[Case], known: Known) -> list[str]:
    sides = [(case.ours, case.theirs) for case in cases]
    return [_sentence(ours, theirs, known) for ours, theirs in sides if ours and theirs]


def _family(said: Declared, *, several: bool, run: str) -> str:
    """Return what the verdicts are about, and over how many comparisons."""
    margin = said.margin_ratio
    equal = (
        f"equal within {100 * margin:g} % by two one-sided tests"
        if margin is not None
        else "no margin declared: [compare] margin_ratio = 0.03 would allow 'equal'"
    )
    count = said.compare.looks
    looks = f" and {count} looks, each at {5 / count:.2g} %" if count > 1 else ""
    late = (
        f" [compare] was written after {said.after_boots} boots were stored: judge as exploration."
        if said.after_boots
        else ""
    )
    return (
        f"{said.compare.metric}{f' of run {run}' if several else ''}: ratio of geometric means over"
        f" boots, paired by block, t interval on logs; Holm over m = {said.m}{looks}; {equal}."
        f"{late}"
    )


def _rows(case: Case, verdict: Verdict, known: Known) -> Iterator[dict[str, Any]]:
    """Yield the row of a comparison; of boots of several kinds one for each kind too."""
    doubts, heading = ", ".join(_doubts(case, known)), f"ratio [{100 * verdict.level:.3g} %]"
    row = {"compared": case.name, "load": case.load}
    yield row | {
        "blocks": verdict.n or None,
        heading: centre_of(verdict.interval, verdict.n),
        "equal within": percent(verdict.equal_within),
        "verdict": _told(case, verdict, known),
        "doubts": doubts,
    }
    for told, ours, theirs in _by_kind(case, known):
        sides = pairs(ours.by_block, theirs.by_block)
        n = len(sides[0])
        if n > 1:
            ratio = centre_of(interval(paired(*sides), verdict.level), n)
            held = {"blocks": n, heading: ratio, "equal within": None}
            yield row | held | {"verdict": f"{told}; not judged", "doubts": doubts}


def _by_kind(case: Case, known: Known) -> Iterator[tuple[str, Sample, Sample]]:
    """Yield each kind of boots against each kind of the other side, over the blocks of both."""
    ours, theirs = case.ours, case.theirs
    if ours is None or theirs is None or not (ours.by_block and theirs.by_block):
        return
    mine, other = known.kinds[ours.key], known.kinds[theirs.key]
    if not mine.several and not other.several:
        return
    for one in mine.kinds:
        for two in other.kinds:
            told = [
                f"{side.cell} with {kind.told} ({len(kind.boots)} of {kinds.boots} boots)"
                for side, kind, kinds in ((ours, one, mine), (theirs, two, other))
                if kinds.several
            ]
            yield "; ".join(told), ours.of(one.boots), theirs.of(two.boots)


def _told(case: Case, verdict: Verdict, known: Known) -> str:
    if verdict.word == "equal":
        return f"equal within {100 * (verdict.margin or 0):g} %"
    if verdict.word != "not enough data":
        return f"{verdict.word} (p = {verdict.p_holm:.2g})"
    return "; ".join([f"not enough data: {verdict.reason}", *_missing(case, verdict, known)])


def _missing(case: Case, verdict: Verdict, known: Known) -> Iterator[str]:
    """Yield how many more boots would decide, what they cost, and from which spread."""
    needed = verdict.needed_boots
    if needed is None or case.ours is None or case.theirs is None:
        return
    keys = (case.ours.key, case.theirs.key)
    block_s = sum(known.block_s.get(key, 0.0) for key in keys)
    gpus = max(known.gpus.get(key, 0) for key in keys)
    low, high = gpu_minutes(needed, block_s, max(gpus, 1))
    unit = "GPU minutes" if gpus else "minutes"
    cost = f", about {_span(low, high)} {unit}" if block_s else ""
    yield f"{_span(*needed)} more boots of each{cost}"
    if verdict.spread is not None:
        yield f"sd of a ratio {100 * verdict.spread.sd:.2g} % from {verdict.spread.source}"


def _span(low: float, high: float) -> str:
    one, other = (f"{max(value, 1):.0f}" for value in (low, high))
    return one if one == other else f"{one} to {other}"


def _doubts(case: Case, known: Known) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for side in (case.ours, case.theirs):
        if side is not None and known.kinds[side.key].several:
            found["several_kinds"] = [known.kinds[side.key].told]
    if case.doubt:
        found["two_valued"] = [f"{case.load}: {case.doubt}"]
    if case.ours is None or case.theirs is None:
        return found
    sides = (known.observed[case.ours.key], known.observed[case.theirs.key])
    differing = [one.rule.name for one in aligned(*sides) if one.judged == "differs"]
    if differing:
        found["not_aligned"] = [f"{case.name}: {', '.join(differing)}"]
    if (case.ours.key, case.theirs.key) in known.wrong:
        found["other_answers"] = [f"{case.name}: one of them computes something else"]
    alone = set(case.ours.by_block) ^ set(case.theirs.by_block)
    if alone:
        blocks = ", ".join(map(str, sorted(alone)))
        found["block_incomplete"] = [f"{case.name} {case.load}: block {blocks} has one side only"]
    return found


TABLE = Table(name="comparison", title="Comparison of declared pairs", order=27, build=build)
