"""What readers are shown of a metric: the heading that every table gives it, with its unit."""

from __future__ import annotations

from typing import Final, get_args

from runner.experiment import Metric

_WORDS: Final = {
    "output_tokens_per_s": "output tok/s",
    "requests_per_s": "requests/s",
    "ttft": "TTFT",
    "itl": "ITL",
    "tpot": "TPOT",
    "e2e": "end to end",
}


def heading(metric: str) -> tuple[str, float]:
    """Return a metric's heading, and the scale from what is stored to what is shown."""
    if metric in _WORDS:
        return _WORDS[metric], 1.0
    what, quantile, _ = metric.split("_")
    return f"{_WORDS[what]} {quantile} ms", 1e3


HEADINGS: Final = {metric: heading(metric) for metric in get_args(Metric)}
"""Of each metric that may be declared: its heading and its scale."""
