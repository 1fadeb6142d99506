"""Whether two cells may be compared: what each server was seen to be, side by side. Pure.

Comparisons use what was observed, not what was requested: one memory fraction, or one chunk size,
means different things to different engines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Value: TypeAlias = float | str
Judged = Literal["equal", "differs", "asked", "unknown", "own words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the boots of one cell showed.

    Attributes:
        cell: the cell as tables name it.
        engine: which engine.
        asked: model and settings as requested.
        seen: name of an aspect -> the distinct values of its boots; absent where nobody said.
    """

    cell: str
    engine: str
    asked: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, Sequence[Value]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How one aspect is judged.

    Attributes:
        name: of the aspect.
        setting: the setting that asks for it; a difference that was asked for is the question.
        tolerance_ratio: numbers within it are equal.
        slack: so are numbers this close, in the aspect's own unit.
        blocks: a difference that nobody asked for forbids a comparison.
        own_words: engines name or choose it each in their own way, so that it is judged only
            between cells of one engine.
    """

    name: str
    setting: str = ""
    tolerance_ratio: float = 0.0
    slack: float = 0.0
    blocks: bool = False
    own_words: bool = False


RULES: Final = (
    Rule(name="served by", blocks=True),
    Rule(name="GPU", blocks=True),
    Rule(name="machine", blocks=True),
    Rule(name="model", setting="model", blocks=True),
    Rule(name="model build", setting="model", blocks=True),
    Rule(name="compile cache", setting="compile", blocks=True),
    Rule(name="way to the server"),
    # SGLang states how far free memory fell, to hundredths: of a tiny model that is noise
    Rule(name="weights GiB", setting="weights", tolerance_ratio=0.1, slack=0.05, blocks=True),
    Rule(name="dtype", setting="dtype"),
    # of a small cache the bytes are stated in hundredths of a GB; other dtypes differ by half
    Rule(name="KV bytes a token", setting="kv_dtype", tolerance_ratio=0.05),
    Rule(name="KV tokens", setting="memory", tolerance_ratio=0.02),
    Rule(name="block tokens", setting="block_tokens", own_words=True),
    Rule(name="chunk", setting="chunk_tokens"),
    Rule(name="mixed chunk", setting="mixed_chunk"),
    Rule(name="prefix cache", setting="prefix_cache"),
    Rule(name="max running", setting="max_running"),
    Rule(name="context tokens", setting="context_tokens"),
    Rule(name="graphs", setting="graphs"),
    Rule(name="attention backend", setting="attention_backend", own_words=True),
    Rule(name="speculation"),
    Rule(name="tensor parallel", setting="tensor_parallel"),
    Rule(name="tokens a streamed chunk", tolerance_ratio=0.05),
    Rule(name="sampling"),
)
"""Every aspect, in the order it is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aspect:
    """One aspect of two cells."""

    rule: Rule
    ours: Sequence[Value]
    theirs: Sequence[Value]
    judged: Judged


def aligned(ours: Observed, theirs: Observed) -> tuple[Aspect, ...]:
    """Return every aspect of two cells with its judgement, in the order of `RULES`."""
    return tuple(_aspect(rule, ours, theirs) for rule in RULES)


def sentence(ours: Observed, theirs: Observed) -> str:
    """Return whether two cells may be compared, and what differs."""
    aspects = aligned(ours, theirs)
    differing = [one for one in aspects if one.judged == "differs"]
    blocking = [one for one in differing if one.rule.blocks]
    if blocking:
        said = f"not comparable because {_listed(blocking)}"
    elif differing:
        said = f"comparable except {_listed(differing)}"
    else:
        said = "comparable"
    asked = [one for one in aspects if one.judged == "asked"]
    parts = [f"{ours.cell} over {theirs.cell}: {said}"]
    parts += [f"asked for: {_listed(asked)}"] if asked else []
    unknown = [one.rule.name for one in aspects if one.judged == "unknown"]
    parts += [f"not known of both: {', '.join(unknown)}"] if unknown else []
    return "; ".join(parts) + "."


def shown(values: Sequence[Value]) -> str:
    """Return the values of a cell's boots as a reader sees them."""
    return " / ".join(_spelled(value) for value in values)


def _aspect(rule: Rule, ours: Observed, theirs: Observed) -> Aspect:
    mine, other = ours.seen.get(rule.name, ()), theirs.seen.get(rule.name, ())
    return Aspect(rule=rule, ours=mine, theirs=other, judged=_judged(rule, ours, theirs))


def _judged(rule: Rule, ours: Observed, theirs: Observed) -> Judged:
    mine, other = ours.seen.get(rule.name, ()), theirs.seen.get(rule.name, ())
    same_engine = ours.engine == theirs.engine
    if rule.own_words and not same_engine:
        return "own words"
    if not mine and not other:  # no side said anything: only what was asked can differ
        return "asked" if rule.setting and _is_asked(rule, ours, theirs) else "equal"
    if not mine or not other:
        return "unknown"
    if all(_equal(one, two, rule) for one in mine for two in other):
        return "equal"
    return "asked" if _is_asked(rule, ours, theirs) else "differs"


def _is_asked(rule: Rule, ours: Observed, theirs: Observed) -> bool:
    """Tell whether the experiment asks for the difference; fractions of two engines do not."""
    mine, other = ours.asked.get(rule.setting), theirs.asked.get(rule.setting)
    if rule.setting == "memory" and ours.engine != theirs.engine:
        kinds = {key for one in (mine, other) if one for key in one}
        return mine != other and "fraction" not in kinds
    return mine != other


def _equal(one: Value, other: Value, rule: Rule) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return abs(one - other) <= max(rule.slack, rule.tolerance_ratio * max(abs(one), abs(other)))


def _listed(aspects: Sequence[Aspect]) -> str:
    return ", ".join(
        f"{one.rule.name} ({shown(one.ours)} against {shown(one.theirs)})"
        if one.ours or one.theirs
        else f"{one.rule.name} (not observed)"
        for one in aspects
    )


def _spelled(value: Value) -> str:
    if isinstance(value, str):
        return value
    if value == int(value):
        return f"{int(value):,}".replace(",", " ") if abs(value) >= 10_000 else str(int(value))
    return f"{value:.3g}"
