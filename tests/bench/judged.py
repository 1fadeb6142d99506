"""Rows of a bench table, judged by their bounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure: what it is, what was found, and whether it keeps its bound (None: no bound)."""

    name: str
    found: str
    bound: str = ""
    kept: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How thoroughly to measure."""

    repeats: int
    peers: bool
    seconds: float


def at_most(name: str, values: Sequence[float], bound: float, unit: str) -> Row:
    """Judge the median of some values against an upper bound; infinity is none."""
    if bound == math.inf:
        return Row(name=name, found=ranged(values, unit))
    return judged(name, values, f"<= {bound:g}", unit, statistics.median(values) <= bound)


def at_least(name: str, values: Sequence[float], bound: float, unit: str) -> Row:
    """Judge the median of some values against a lower bound."""
    return judged(name, values, f">= {bound:g}", unit, statistics.median(values) >= bound)


def judged(name: str, values: Sequence[float], bound: str, unit: str, kept: bool) -> Row:
    return Row(name=name, found=ranged(values, unit), bound=f"{bound} {unit}".strip(), kept=kept)


def ranged(values: Sequence[float], unit: str) -> str:
    middle = f"{statistics.median(values):.4g} {unit}".strip()
    return f"{middle} [{min(values):.4g} to {max(values):.4g}]" if len(values) > 1 else middle
