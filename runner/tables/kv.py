"""KV capacity of every boot, how many requests fit at once, and whether KV explains a gap."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from runner.stats.interval import Interval
from runner.stats.kv import Side, covariate, gap, hindrance, near
from runner.stats.refusal import Refusal
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.declared import declared
from runner.tables.grid import told
from runner.tables.kinds import Key, Kinds
from runner.tables.measured import kinds_by_cell
from runner.tables.runs import runs_of
from runner.tables.samples import Sample, Samples, samples_by_run

_NOTE: Final = (
    "fit at once: whole requests of mean length (input + output) that the KV cache of each boot"
    " holds; of more in flight the others wait, and TTFT counts the wait."
)


def build(results: Results) -> Shown | None:
    """Show KV tokens of each boot beside the requests of each load that fit, and what follows."""
    found: dict[tuple[Key, str], Sample] = {}
    above: list[str] = []
    kinds = kinds_by_cell(results)
    for experiment, run in runs_of(results):
        said = declared(results, experiment, run)
        of_run = samples_by_run(results, said.compare.metric).get((experiment, run), {})
        own = {
            key: sample
            for key, sample in of_run.items()
            if not sample.searched and any(kv is not None for kv in sample.kv_tokens)
        }
        found |= own
        above += [f"{kinds[key].told}." for key in _cells(own) if kinds[key].several]
        for pair in said.pairs:
            above += _of_pair(pair, own, kinds, results)
    if not found:
        return None
    frame = pd.DataFrame([_row(sample) for sample in found.values()])
    return Shown(frame=frame, above=above, notes=[_NOTE])


def _cells(own: Samples) -> list[Key]:
    return list(dict.fromkeys(key for key, _ in own))


def _row(sample: Sample) -> dict[str, Any]:
    tokens = sorted({round(one) for one in sample.request_tokens if one is not None})
    return {
        "cell": sample.cell,
        "load": sample.load,
        "boots": len(sample.boots),
        "KV tokens": sample.kv_tokens,
        "tokens a request": tokens[0] if len(tokens) == 1 else tuple(tokens) or None,
        "fit at once": sample.fit,
        "in flight": sample.in_flight,
    }


def _of_pair(
    pair: tuple[str, str], own: Samples, kinds: Mapping[Key, Kinds], results: Results
) -> Iterator[str]:
    """Yield what can be said of a pair's KV at each load that does not fit whole."""
    loads = list(dict.fromkeys(load for _, load in own))
    for load in loads:
        sides = [_of(label, load, own) for label in pair]
        full = [side for side in sides if side is not None and side.is_full]
        if full and not _asked_apart(sides, results):
            ours, theirs = _moved_first(sides)
            if ours is not None and theirs is not None:
                yield _sentence(ours, theirs, kinds, _others(ours, own))


def _of(label: str, load: str, own: Samples) -> Sample | None:
    """Return a cell's sample of a load, or of another load where that one has no figure."""
    mine = [sample for sample in own.values() if sample.label == label]
    return next((s for s in mine if s.load == load), mine[0] if mine else None)


def _others(ours: Sample, own: Samples) -> list[Sample]:
    """Return the other cells of the same engine at the same load: they help to fit the slope."""
    return [
        sample
        for (key, load), sample in own.items()
        if load == ours.load and sample.engine == ours.engine and key != ours.key
    ]


def _asked_apart(sides: list[Sample | None], results: Results) -> bool:
    """Tell whether the experiment asks one engine for different memory: KV is the question."""
    known = [side for side in sides if side is not None]
    cells = results.cells.set_index(["experiment", "run", "cell_id"])
    asked = [json.loads(cells.settings[side.key] or "{}").get("memory") for side in known]
    same_engine = len({side.engine for side in known}) == 1
    return same_engine and len(asked) == 2 and asked[0] != asked[1]


def _moved_first(sides: list[Sample | None]) -> list[Sample | None]:
    """Return the side whose KV varies most first: it is the one a slope could move."""

    def spread(side: Sample | None) -> float:
        known = [kv for kv in side.kv_tokens if kv is not None] if side else []
        return max(known) / min(known) if known else 0.0

    return sorted(sides, key=spread, reverse=True)


def _sentence(
    ours: Sample, theirs: Sample, kinds: Mapping[Key, Kinds], others: Sequence[Sample]
) -> str:
    """Return what is known of KV between two cells at one load, and what to run next."""
    configured, equal = _gaps(ours, theirs, others)
    told_of = f"{ours.cell} over {theirs.cell}"
    parts = []
    if isinstance(configured, Interval) and not (
        kinds[ours.key].several or kinds[theirs.key].several
    ):
        parts.append(f"{told_of} is {_ratio(configured)} as configured")
    if isinstance(equal, Interval):
        parts.append(f"{told_of} is {_ratio(equal)} at equal KV")
    else:
        parts += _unequal(ours, theirs, equal)
    return f"At {ours.load} not all requests fit: {'. '.join(parts)}."


def _unequal(ours: Sample, theirs: Sample, refused: Refusal | None) -> Iterator[str]:
    """Yield why there is no figure at equal KV, and what to run."""
    mine, other = _known(ours), _known(theirs)
    reason = hindrance(mine, [boot == 0 for boot in ours.boots], other) or refused
    if reason is not None:
        yield reason.reason.removesuffix("; pin KV and run 5 boots")
    if not near(mine, other):
        yield (
            f"No {ours.cell} boot is within 2 % of {theirs.cell}'s KV tokens"
            f" ({told(tuple(mine))} against {told(tuple(other))}), so no comparison at equal KV"
            " exists"
        )
    yield f"Next: pin memory = {{ kv_tokens = {min(*mine, *other)} }} in both and run 5 boots"


def _known(sample: Sample) -> list[int]:
    return [kv for kv in sample.kv_tokens if kv is not None]


def _gaps(
    ours: Sample, theirs: Sample, others: Sequence[Sample]
) -> tuple[Interval | Refusal | None, Interval | Refusal | None]:
    """Return the ratio as configured and at equal KV, over the blocks that both have."""
    if ours.load != theirs.load:
        return None, None
    warm = (_warm(ours).by_block.keys(), _warm(theirs).by_block.keys())
    blocks = sorted(warm[0] & warm[1])
    if not blocks:
        return None, None
    helping = [_side(_warm(one), sorted(_warm(one).by_block)) for one in others if _helps(one)]
    found = gap(_side(ours, blocks), _side(theirs, blocks), others=helping)
    return found.as_configured, found.at_equal_kv


def _warm(sample: Sample) -> Sample:
    """Return the boots that found what they compile, where there are any: cold ones stand apart."""
    warm = [
        boot for boot, cache in zip(sample.boots, sample.caches, strict=True) if cache != "cold"
    ]
    return sample.of(warm) if warm else sample


def _helps(sample: Sample) -> bool:
    """Tell whether another cell has boots enough to say how the metric follows the KV."""
    return len(_warm(sample).by_block) > 1 and None not in _warm(sample).kv_tokens


def _side(sample: Sample, blocks: Sequence[int]) -> Side:
    places = [place for place, block in enumerate(sample.blocks) if block in blocks]
    return Side(
        values=[sample.figures[place] or 0.0 for place in places],
        fit=[_fit(sample, place) for place in places],
        first=[sample.boots[place] == 0 for place in places],
    )


def _fit(sample: Sample, place: int) -> float:
    """Return how many requests run at once on one boot; 0, which has no answer, if unknown."""
    kv_tokens, tokens = sample.kv_tokens[place], sample.request_tokens[place]
    if not kv_tokens or not tokens or not sample.in_flight:
        return 0.0
    return covariate(
        max_running=sample.max_running[place] or sample.in_flight,
        concurrency=sample.in_flight,
        kv_tokens=kv_tokens,
        input_tokens=round(tokens),
        output_tokens=0,
    )


def _ratio(interval: Interval) -> str:
    return f"{interval.centre:.3f} [{interval.low:.3f} - {interval.high:.3f}]"


TABLE = Table(name="kv", title="KV cache, and how many requests fit at once", order=15, build=build)
