"""What is otherwise between two runs: builds, what servers were observed to be, loads. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from runner.sides.alignment import Aspect, aligned, shown
from runner.sides.side import BUILD, Side

_MISSING: Final = "nothing"


def changes(now: Side, then: Side) -> dict[str, list[str]]:
    """Return what changed of each cell that both runs have, as `chunk (2048 became 8192)`."""
    found: dict[str, list[str]] = {}
    for name in now.observed:
        if name in then.observed:
            parts = [*_built(now, then, name), *_seen(now, then, name)]
            if parts:
                found[name] = parts
    return found


def blocking(now: Side, then: Side, name: str) -> list[str]:
    """Return what changed of a cell that forbids a comparison."""
    return [one.rule.name for one in _differing(now, then, name) if one.rule.blocks]


def load_changes(now: Side, then: Side, load: str) -> list[str]:
    """Return what two runs ask otherwise of one load; nothing where a file no longer tells."""
    ours, theirs = now.asked.get(load), then.asked.get(load)
    if ours is None or theirs is None or ours == theirs:
        return []
    mine, other = dict(_flat(ours)), dict(_flat(theirs))
    return [
        f"{name} ({other.get(name, _MISSING)} became {mine.get(name, _MISSING)})"
        for name in dict.fromkeys([*other, *mine])
        if mine.get(name) != other.get(name)
    ]


def _built(now: Side, then: Side, name: str) -> Iterator[str]:
    ours, before = now.build[name], then.build[name]
    for part in BUILD:
        if ours[part] != before[part]:
            yield f"{part} ({before[part]} became {ours[part]})"


def _seen(now: Side, then: Side, name: str) -> Iterator[str]:
    for one in _differing(now, then, name):
        if not set(one.ours) & set(one.theirs):  # else some boots were alike: nobody changed it
            was = shown(one.theirs) or "unknown"
            yield f"{one.rule.name} ({was} became {shown(one.ours)})"


def _differing(now: Side, then: Side, name: str) -> Iterator[Aspect]:
    aspects = aligned(now.observed[name], then.observed[name])
    return (one for one in aspects if one.judged == "differs")


def _flat(keys: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in keys.items():
        if isinstance(value, Mapping):
            yield from _flat(value, "" if name == "spec" else f"{before}{name}.")
        else:
            yield f"{before}{name}", value
