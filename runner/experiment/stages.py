"""`[[stages]]`: the same cells twice, the second time with what the first time showed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from runner.experiment.complaints import Complaint
from runner.experiment.keys import Keys
from runner.experiment.places import WORD, Place


class Stage(Keys):
    """One of two stages: all boots of the first come before any of the second.

    Attributes:
        name: tells its cells from those of the other stage.
        kv_tokens: `smallest`: every cell gets the KV capacity of the smallest boot of stage 1.
    """

    name: str
    kv_tokens: Literal["smallest"] | None = None


def stage_complaints(
    stages: Sequence[Stage],
    axes: Mapping[str, Any],
    zips: Sequence[Mapping[str, Any]],
    included: Sequence[Mapping[str, Any]],
    attached: Sequence[str],
) -> Iterator[Complaint]:
    """Yield complaints about stages, and about what cannot go with them.

    Args:
        stages: as written.
        axes: of the matrix.
        zips: groups of the matrix that move together.
        included: points that were added to the matrix.
        attached: sections whose servers already run.
    """
    if not stages:
        return
    named = [stage.name for stage in stages]
    for number, name in enumerate(named):
        if not WORD.fullmatch(name) or name in named[:number]:
            sentence = "a stage needs a name of its own, of letters, digits, '_.-'"
            yield Complaint(place=("stages", number, "name"), sentence=sentence)
    if [stage.kv_tokens for stage in stages] != [None, "smallest"]:
        sentence = 'stages are two: one as configured, then one with kv_tokens = "smallest"'
        yield Complaint(place=("stages",), sentence=sentence)
    places: list[Place] = [("matrix", "memory")] if "memory" in axes else []
    places += [("matrix", "zip", n, "memory") for n, group in enumerate(zips) if "memory" in group]
    places += [("include", n, "memory") for n, one in enumerate(included) if "memory" in one]
    for place in places:
        sentence = "stage 2 gives every cell its memory, so it is no axis; leave one of them out"
        yield Complaint(place=place, sentence=sentence)
    for name in attached:
        sentence = "a server that is attached cannot be given its KV tokens by stage 2"
        yield Complaint(place=("engines", name), sentence=sentence)
