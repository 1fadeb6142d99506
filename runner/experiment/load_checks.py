"""What `[[loads]]` can still get wrong: workloads and their keys, levels, names told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from runner import workloads
from runner.experiment import Experiment, LoadKeys, Requests, Timeouts
from runner.experiment.complaints import Complaint, findings_of, suggestion, unknown_key
from runner.experiment.forms import form_of
from runner.experiment.levels import load_ids
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
    for found in findings_of(spec, load.model_extra or {}):
        yield Complaint(place=place + found.place, sentence=_advised(found, spec))


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
    for key in ("arrivals", "burstiness"):
        if is_closed and key in written:
            sentence = "goes with rate_per_s: a closed loop sends when an answer has ended"
            yield Complaint(place=(*place, key), sentence=sentence)
    if not is_closed and "burstiness" in written and load.arrivals != "gamma":
        sentence = 'goes with arrivals = "gamma"'
        yield Complaint(place=(*place, "burstiness"), sentence=sentence)
    if not is_closed and isinstance(load.requests, Requests):
        sentence = "arrivals at a rate have no streams; write requests = 100, or duration_s = 60"
        yield Complaint(place=(*place, "requests"), sentence=sentence)
