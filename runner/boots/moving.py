"""A doubt about a load whose latencies move while it lasts, though its requests are alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runner import workloads
from runner.doubts import Doubt, doubt
from runner.experiment.levels import Load
from runner.figures.latency import began_ns, e2e_s, served
from runner.load import Timeline
from runner.stats.trend import Trend, over_time


def doubts_about_drift(load: Load, timelines: Iterable[Timeline]) -> Iterator[Doubt]:
    """Yield a doubt where the time to the last token drifts within the steady part of a load.

    Nothing is said of a workload whose later requests are others than its first, nor of a burst,
    whose queue drains, nor of a probe, whose search judges by itself whether it was steady.
    """
    if not workloads.get(load.workload).alike or load.level_kind == "burst":
        return
    if load.probe is not None:
        return
    each = ((began_ns(one), e2e_s(one)) for one in timelines if served(one))
    sent = sorted(each, key=lambda one: one[0])
    # the first streams begin together and the last ones end among fewer
    edge = load.in_flight or 0
    steady = [seconds for _, seconds in sent[edge : len(sent) - edge] if seconds is not None]
    found = over_time(steady)
    if isinstance(found, Trend) and found.named:
        yield doubt("drift_within_load", load.load, f"the time to the last token moves by {found}")
