"""What `[[loads]]` can still get wrong: workloads and their keys, levels, names told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runner import workloads
from runner.experiment import Experiment, LoadKeys, Ramp, Requests, Timeouts
from runner.experiment.complaints import Complaint, findings_of, suggestion, unknown_key
from runner.experiment.forms import form_of
from runner.experiment.levels import load_ids, own_keys
from runner.experiment.places import WORD, Place

_FEWEST_FOR_P99 = 100


def load_complaints(loads: Sequence[LoadKeys], timeouts: Timeouts) -> Iterator[Complaint]:
    """Yield complaints about each load, and about loads that could not be told apart."""
    seen: set[str] = set()
    for number, load in enumerate(loads):
        place: Place = ("loads", number)
        yield from _load(place, load)
        yield from _contradictions(place, load)
        yield from _search(place, load)
        if load.duration_s is not None and load.duration_s > timeouts.load_s:
            sentence = f"is longer than [timeouts] load_s = {timeouts.load_s:g}; raise that too"
            yield Complaint(place=(*place, "duration_s"), sentence=sentence)
        ids = load_ids(load)
        if len(set(ids)) < len(ids):
            twice = next(one for one in ids if ids.count(one) > 1)
            sentence = f"{twice} is there twice; to repeat a level write repeats = 2"
            yield Complaint(place=place, sentence=sentence)
        if shared := seen.intersection(ids):
            sentence = f'{min(shared)} is there already; tell them apart with name = "..."'
            yield Complaint(place=place, sentence=sentence)
        seen.update(ids)


def _load(place: Place, load: LoadKeys) -> Iterator[Complaint]:
    if load.name is not None and not WORD.fullmatch(load.name):
        sentence = "a name is letters, digits, '_.-', and begins with a letter or digit"
        yield Complaint(place=(*place, "name"), sentence=sentence)
    if load.workload not in workloads.names():
        hint = suggestion(load.workload, workloads.names())
        yield Complaint(place=(*place, "workload"), sentence=f"unknown workload. {hint}")
        return
    spec = workloads.get(load.workload).spec
    yield from _own_times(place, load)
    for found in findings_of(spec, own_keys(load)):
        yield Complaint(place=place + found.place, sentence=_advised(found, spec))


def _own_times(place: Place, load: LoadKeys) -> Iterator[Complaint]:
    """Judge whose times a load has: its level's, or the workload's own."""
    kind, written = workloads.get(load.workload), load.model_extra or {}
    key = next((k for k in ("speed", "burst") if getattr(load, k) is not None), None)
    if key is None and kind.times == "own":
        instead = "burst = [16] or speed = 1.0" if "size" in kind.spec.model_fields else "speed = 1"
        sentence = f"its requests have times of their own; write {instead} as its level"
        yield Complaint(place=(*place, "workload"), sentence=sentence)
    if key == "speed" and kind.times == "level":
        sentence = f"{load.workload} has no times of its own; write rate_per_s or concurrency"
        yield Complaint(place=(*place, key), sentence=sentence)
    if key == "burst" and "size" not in kind.spec.model_fields:
        yield Complaint(place=(*place, key), sentence='goes with workload = "burst"')
    if key == "burst" and "size" in written:
        sentence = "stands beside burst, which says how many; leave one out"
        yield Complaint(place=(*place, "size"), sentence=sentence)
    if written.get("times", (own := "own" if key == "speed" else "level")) != own:
        sentence = f'contradicts the level: "{own}" is what it says; leave times out'
        yield Complaint(place=(*place, "times"), sentence=sentence)
    if key == "speed" and not kind.ends and load.requests is None and load.duration_s is None:
        sentence = "its requests never end; write requests = 100, or duration_s = 60"
        yield Complaint(place=(*place, key), sentence=sentence)


def _advised(found: Complaint, spec: type[workloads.Spec]) -> str:
    """Return its sentence; for an unknown key search the keys of every load as well."""
    if not found.sentence.startswith("unknown key") or len(found.place) > 1:
        return found.sentence
    known: list[Any] = [*spec.model_fields, *LoadKeys.model_fields]
    return unknown_key(("loads", 0, *found.place), known, form_of(Experiment))


def _search(place: Place, load: LoadKeys) -> Iterator[Complaint]:
    """Judge what goes with a search: its windows end by requests, enough of them for a p99."""
    if load.search is None:
        return
    if load.duration_s is not None:
        sentence = "a search ends its windows by requests; write requests = 300, or leave both out"
        yield Complaint(place=(*place, "duration_s"), sentence=sentence)
    if load.search.rate_per_s is not None and "warmup" in load.model_fields_set:
        sentence = "a search at a rate warms up by arrivals; write search.settle_s = 10 instead"
        yield Complaint(place=(*place, "warmup"), sentence=sentence)
    asked = load.requests
    fewest = asked.at_least if isinstance(asked, Requests) else asked
    if load.search.slo.quantile >= 0.99 and fewest is not None and fewest < _FEWEST_FOR_P99:
        sentence = f"a p99 has a value from {_FEWEST_FOR_P99} requests on; 299 make it likely right"
        yield Complaint(place=(*place, "requests"), sentence=sentence)


def _contradictions(place: Place, load: LoadKeys) -> Iterator[Complaint]:
    written = load.model_fields_set
    searches_streams = load.search is not None and load.search.concurrency is not None
    is_closed = load.concurrency is not None or searches_streams
    has_own = load.speed is not None or load.burst is not None
    for key in ("arrivals", "burstiness"):
        if has_own and key in written:
            sentence = "goes with rate_per_s: these requests have times of their own"
            yield Complaint(place=(*place, key), sentence=sentence)
        if is_closed and key in written:
            sentence = "goes with rate_per_s: a closed loop sends when an answer has ended"
            yield Complaint(place=(*place, key), sentence=sentence)
    if load.ramp is not None:
        yield from _ramp((*place, "ramp"), load.ramp, _written(load.rate_per_s))
    if load.max_in_flight is not None and (is_closed or load.search is not None):
        sentence = "goes with rate_per_s, speed or burst: a closed loop's level is its cap"
        yield Complaint(place=(*place, "max_in_flight"), sentence=sentence)
    if "inf" in _written(load.rate_per_s) and load.duration_s is not None:
        sentence = "all requests at once need a number of them; write requests = 100"
        yield Complaint(place=(*place, "duration_s"), sentence=sentence)
    if not is_closed and "burstiness" in written and load.arrivals != "gamma":
        sentence = 'goes with arrivals = "gamma"'
        yield Complaint(place=(*place, "burstiness"), sentence=sentence)
    if not is_closed and isinstance(load.requests, Requests):
        sentence = "an open loop has no streams; write requests = 100, or duration_s = 60"
        yield Complaint(place=(*place, "requests"), sentence=sentence)


def _ramp(place: Place, ramp: Ramp, rates: tuple[object, ...]) -> Iterator[Complaint]:
    """Judge a ramp: it needs a rate to end at, and a shape that can leave the one it begins at."""
    if not rates or "inf" in rates:
        sentence = "goes with rate_per_s, a number: the level at which it ends"
        yield Complaint(place=place, sentence=sentence)
    if ramp.shape == "exponential" and not ramp.from_per_s:
        sentence = "an equal factor never leaves 0; write a rate above 0"
        yield Complaint(place=(*place, "from_per_s"), sentence=sentence)
    if ramp.shape != "steps" and "steps" in ramp.model_fields_set:
        yield Complaint(place=(*place, "steps"), sentence='goes with shape = "steps"')


def _written(levels: object) -> tuple[object, ...]:
    """Return levels as a list, however they were written."""
    return levels if isinstance(levels, tuple) else () if levels is None else (levels,)
