"""Whether servers of one model say the same, so that a fast wrong one is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from runner.figures.accuracy import Agreement
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.agreements import LEAST_FIRST_RATIO, Held, agreements
from runner.tables.runs import cells_of

DOUBT: Final = "other_answers"
_NOTE: Final = (
    "Greedy answers of the same prompts, boot by boot. Equal tokens: those before the first that"
    " differs, as a share of all. Rounding alone (other kernels, fp8) lets an answer go its own way"
    f" sooner or later; under {100 * LEAST_FIRST_RATIO:g} % of answers that begin with the same"
    " token, one of the servers computes something else."
)


def build(results: Results) -> Shown | None:
    """Show equal tokens over the boots of each cell, and between compared cells of one model."""
    held = agreements(results)
    if not held:
        return None
    names = {key: str(cell["label"]) for key, cell in cells_of(results).items()}
    rows = [_row(one, names) for one in held]
    seen = [f"{row['cell']} against {row['against']}: {_firsts(row)}" for row in rows if _of(row)]
    doubts = {DOUBT: seen} if seen else {}
    return Shown(frame=pd.DataFrame(rows), notes=[_NOTE], doubts=doubts, keys=3)


def _row(one: Held, names: dict[Any, str]) -> dict[str, Any]:
    own = one.ours == one.theirs
    return {
        "cell": names[one.ours],
        "against": "its first boot" if own else names[one.theirs],
        "load": one.load,
        "prompts": max((each.prompts for each in one.each), default=0),
        "equal answers": tuple(float(each.equal_prompts) for each in one.each),
        "equal tokens %": _percent(one.each, "equal_ratio"),
        "same first token %": _percent(one.each, "first_ratio"),
        "doubts": DOUBT if one.differs else None,
    }


def _percent(each: Sequence[Agreement], name: str) -> tuple[float | None, ...]:
    shares = [getattr(one, name) for one in each]
    return tuple(None if share is None else 100 * share for share in shares)


def _of(row: dict[str, Any]) -> bool:
    return row["doubts"] is not None


def _firsts(row: dict[str, Any]) -> str:
    listed = " / ".join(f"{share:.3g}" for share in row["same first token %"] if share is not None)
    return f"{listed} % of the answers to the same prompts begin with the same token"


TABLE = Table(name="accuracy", title="Answers held against each other", order=28, build=build)
