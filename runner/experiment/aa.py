"""`[aa]`: the same cell under two names, so that a bench tells how often it calls nothing a change.

The twin stands in the blocks of its original and differs from it by its name alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from runner.experiment import Experiment
from runner.experiment.complaints import Complaint

AGAIN: Final = "aa"
"""Name of the first cell's twin."""


def again_complaints(experiment: Experiment) -> Iterator[Complaint]:
    """Complain of an A/A that no block could hold, or whose name is taken."""
    if experiment.aa is None:
        return
    if experiment.aa.boots > experiment.boots:
        sentence = (
            f"the twin stands beside its cell in each block, so at most boots = {experiment.boots};"
            f" found {experiment.aa.boots}"
        )
        yield Complaint(place=("aa", "boots"), sentence=sentence)
    if AGAIN in experiment.engines:
        sentence = 'names the twin that [aa] starts; rename the section and write engine = "..."'
        yield Complaint(place=("engines", AGAIN), sentence=sentence)
