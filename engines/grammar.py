"""What a log grammar is made of: rules that say which facts a message states, and deaths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from engines import Fact, Value
from engines.facts import AS_STORED, CATALOGUE

GIB: Final = 2**30
GB: Final = 10**9

INT: Final = r"(-?\d[\d,]*)(?![\ue000])(?=[^\w.]|\.(?!\d)|$)"
"""A whole number, with or without separators; cut off or glued to a word it is none."""
NUM: Final = r"(-?\d+(?:\.\d+)?)"

Convert = Callable[[str], Value | None]


@dataclass(frozen=True, slots=True)
class Field:
    """One fact inside a message: the first group of `pattern` is its value.

    Attributes:
        fact: a name of the catalogue; its unit there decides how the text becomes a value.
        pattern: searched in the message.
        weight: where several messages state the fact, the heavier one counts.
        scale: bytes of one unit of a size.
        convert: how the text becomes a value, where the unit does not tell.
        unit: the fact's unit in the catalogue.
    """

    fact: str
    pattern: re.Pattern[str]
    weight: int = 2
    scale: int = GIB
    convert: Convert | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A kind of message, known by a literal part of it.

    Attributes:
        anchor: the literal that every such message bears.
        fields: what it states.
        needs: a fact without which the message is not complete: it may go on in the next lines.
        ends: what the message ends with; until then it may go on in the next lines.
        lines: most further lines it may take.
        states: facts that hold whenever the message is complete.
        shared: other engines print it too, so it does not tell which engine this is.
    """

    anchor: str
    fields: tuple[Field, ...] = ()
    needs: str = ""
    ends: str = ""
    lines: int = 3
    states: Mapping[str, Value] = field(default_factory=dict)
    shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Death:
    """A message that tells why a server died.

    Attributes:
        cause: a name of `engines.causes.CATALOGUE`.
        anchor: the literal that every such message bears.
        pattern: what must also be found in the message.
        bare: it counts wherever it stands; otherwise only as an error's own message.
        weak: it only counts where nothing more precise is found.
    """

    cause: str
    anchor: str
    pattern: re.Pattern[str] | None = None
    bare: bool = False
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A fact with what is needed to choose among several statements of it."""

    fact: Fact
    weight: int
    order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How one engine's log reads.

    Attributes:
        engine: its name.
        signs: further literals that only this engine prints.
        rules: what it states.
        deaths: why it dies, besides what every Python server dies of.
        tails: literals of messages that follow a death and never tell its cause.
        ready: literals of the message that says it is ready.
        captures: literals that open the capturing of CUDA graphs, and the one that closes it.
        stops: literals of a stop that was asked for.
        noise: literals of the many lines that only a serving server prints; they state nothing.
        quotes: literals that begin a line which quotes a request: nothing in it is the server's.
        settle: makes the facts of the server out of all statements, in time order.
    """

    engine: str
    signs: tuple[str, ...]
    rules: tuple[Rule, ...]
    deaths: tuple[Death, ...]
    tails: tuple[str, ...]
    ready: tuple[str, ...]
    captures: tuple[tuple[str, ...], str]
    stops: tuple[str, ...]
    noise: tuple[bytes, ...]
    quotes: tuple[bytes, ...]
    settle: Callable[[list[Found]], list[Found]]


def fact(
    name: str, pattern: str, *, weight: int = 2, scale: int = GIB, convert: Convert | None = None
) -> Field:
    """Return a field of the catalogue's fact `name`.

    A name outside the catalogue is the grammar's own, until it is settled what it belongs to;
    its last word is its unit.
    """
    unit = CATALOGUE[name].unit if name in CATALOGUE else name.rpartition("_")[2]
    return Field(name, re.compile(pattern), weight, scale, convert, unit)


def one(anchor: str, name: str, pattern: str, *, weight: int = 2, lines: int = 3) -> Rule:
    """Return the rule of a message that states one fact right behind its anchor.

    A blank at the anchor's end may as well be a line end.
    """
    literal = anchor.rstrip()
    whole = fact(name, re.escape(literal) + r"\s*" + pattern, weight=weight)
    return Rule(literal, (whole,), needs=name, lines=lines)


def value(of: Field, text: str) -> Value | None:
    """Return a field's text as a value in the catalogue's unit, None for what says nothing."""
    if of.convert is not None:
        return of.convert(text)
    if of.unit == "bytes":
        return round(float(text) * of.scale)
    if of.unit in ("tokens", "blocks", "slots"):
        return int(text.replace(",", ""))
    if text in ("None", "", "null"):
        return None
    if text in ("True", "False", "true", "false"):
        return text.lower() == "true"
    return number(text) if re.fullmatch(r"-?[\d,]+(?:\.\d+)?", text) else text.strip("'\"")


def number(text: str) -> int | float:
    """Return a number with or without separators."""
    text = text.replace(",", "")
    return float(text) if "." in text else int(text)


def negated(text: str) -> Value | None:
    """Return the opposite of a switch, None for what is none."""
    return None if text not in ("True", "False") else text == "False"


def named(text: str) -> Value | None:
    """Return a word that is a choice, None for `auto` and `None`, which are none."""
    word = text.strip("'\"")
    return None if word in ("auto", "None", "") else word


def quantized(text: str) -> Value:
    """Return the quantization that is applied to weights, the setting's word for none."""
    word = text.strip("'\"")
    return AS_STORED if word in ("None", "") else word


def positive(text: str) -> Value | None:
    """Return a whole number above zero, None for what means `off` or `unset`."""
    return int(text) if re.fullmatch(r"\d+", text) and int(text) > 0 else None


def complete(rule: Rule, text: str, stated: frozenset[str]) -> bool:
    """Tell whether a message needs no further line."""
    ended = not rule.ends or text.rstrip().endswith(rule.ends)
    return ended and (not rule.needs or rule.needs in stated)


def statements(rule: Rule, text: str) -> Iterator[tuple[Field, Value]]:
    """Yield what a message states by a rule, each fact once."""
    seen: set[str] = set()
    for each in rule.fields:
        found = each.pattern.search(text) if each.fact not in seen else None
        stated = value(each, found[1] or "") if found else None
        if stated is not None:
            seen.add(each.fact)
            yield each, stated
