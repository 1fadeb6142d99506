"""What injected prompts did to the streams that were decoding: stalls, and their own TTFT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any, Final

from runner.figures.interference import interference
from runner.load import Timeline
from runner.stored.frames import Results
from runner.tables import Shown, Table
from runner.tables.derived import derived
from runner.tables.over_boots import Metric, over_boots

WORKLOADS: Final = ("interference",)
_NOTE: Final = (
    "Inside: while an injected request was in, from its send to its last token. Stall: what the"
    " gaps inside exceed the victim's typical gap by, summed. A dash: nothing overlapped."
)


def figures(timelines: Iterable[Timeline], load: Mapping[Any, Any]) -> Mapping[str, float | None]:
    """Return the victims' largest gaps, the sum of stalls, and the injected requests' TTFT."""
    del load
    found = interference(timelines)
    outside = [v.largest_outside_s for v in found.victims if v.largest_outside_s is not None]
    stalls = [v.stall_s for v in found.victims if v.stall_s is not None]
    is_void = found.void is not None or not found.injected
    return {
        "largest_inside_s": None if is_void else found.largest_inside_s,
        "largest_outside_s": max(outside, default=None),
        "stall_s": None if is_void else sum(stalls),
        "injected_ttft_s": median(found.injected_ttft_s) if found.injected_ttft_s else None,
        "overlapped": float(found.overlapped),
    }


def build(results: Results) -> Shown | None:
    """Show the largest gap of any victim inside and outside, the stall, and injected TTFT."""
    shown = over_boots(
        results,
        (
            Metric(
                heading="largest ITL inside ms",
                symbol="inside",
                column="largest_inside_s",
                scale=1e3,
            ),
            Metric(
                heading="outside ms",
                symbol="",
                column="largest_outside_s",
                scale=1e3,
                centre=False,
            ),
            Metric(heading="stall ms", symbol="", column="stall_s", scale=1e3, centre=False),
            Metric(
                heading="injected TTFT p50 ms",
                symbol="",
                column="injected_ttft_s",
                scale=1e3,
                centre=False,
            ),
        ),
        derived(results, WORKLOADS, figures),
    )
    return replace(shown, notes=[*shown.notes, _NOTE]) if shown else None


TABLE = Table(
    name="interference",
    title="Streams that decode while prompts are injected",
    order=57,
    build=build,
)
