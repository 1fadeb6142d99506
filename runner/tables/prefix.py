"""The first request of a prefix apart from the later ones: what the prefix cache saves in TTFT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, Final

from runner.figures.shared_prefix import first_and_later
from runner.load import Timeline
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.derived import derived
from runner.tables.over_boots import Metric, over_boots

WORKLOADS: Final = ("shared_prefix", "multi_turn")


def figures(timelines: Iterable[Timeline], load: Mapping[Any, Any]) -> Mapping[str, float | None]:
    """Return median TTFT of first and later requests of a prefix, and how many came too early."""
    del load
    found = first_and_later(timelines)
    return {
        "ttft_first_s": median(found.first_s) if found.first_s else None,
        "ttft_later_s": median(found.later_s) if found.later_s else None,
        "later_over_first": found.saved_ratio,
        "together": float(len(found.together_s)),
    }


def build(results: Results) -> Shown | None:
    """Show TTFT of first and later requests, and later over first: 1 saves nothing."""
    return over_boots(
        results,
        (
            Metric(heading="later / first", symbol="later / first", column="later_over_first"),
            Metric(
                heading="first p50 ms", symbol="", column="ttft_first_s", scale=1e3, centre=False
            ),
            Metric(
                heading="later p50 ms", symbol="", column="ttft_later_s", scale=1e3, centre=False
            ),
            Metric(heading="sent too early", symbol="", column="together", centre=False),
        ),
        derived(results, WORKLOADS, figures),
    )


TABLE = Table(
    name="prefix",
    title="Prefix cache: TTFT of the first and of later requests",
    order=55,
    build=build,
)
