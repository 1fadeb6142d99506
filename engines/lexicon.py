"""Every engine's grammar, ready for use: its literals as one pattern, its rules by literal."""

from __future__ import annotations

import importlib
import importlib.util
import re
from dataclasses import dataclass
from functools import cache

from engines import names
from engines.ending import literals as literals_of_life
from engines.grammar import Grammar, Rule
from engines.recall import one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Lexicon:
    """A grammar with its literals.

    Attributes:
        grammar: the grammar.
        rules: its rules, by their anchors.
        literals: all literals that matter to it.
        any: finds one of them; which ones a message bears is only asked where it bears one.
        own: those of them that only this engine prints.
    """

    grammar: Grammar
    rules: dict[str, tuple[Rule, ...]]
    literals: tuple[str, ...]
    any: re.Pattern[bytes]
    own: frozenset[str]

    def borne(self, text: str) -> set[str]:
        """Return the literals that a message bears."""
        if not self.any.search(text.encode()):
            return set()
        return {literal for literal in self.literals if literal in text}


@cache
def lexicons() -> dict[str, Lexicon]:
    """Return the lexicons of all engines that have a log grammar, by name."""
    found = {}
    for name in names():
        package = importlib.util.find_spec(f"engines.{name}")
        if package is None or package.submodule_search_locations is None:
            continue
        if importlib.util.find_spec(f"engines.{name}.log") is not None:
            grammar = getattr(importlib.import_module(f"engines.{name}.log"), "GRAMMAR", None)
            if grammar is not None:
                found[name] = _lexicon(grammar)
    return found


def _lexicon(grammar: Grammar) -> Lexicon:
    rules: dict[str, tuple[Rule, ...]] = {}
    for rule in grammar.rules:
        rules[rule.anchor] = (*rules.get(rule.anchor, ()), rule)
    literals = {*rules} | literals_of_life(grammar)
    return Lexicon(
        grammar=grammar,
        rules=rules,
        literals=tuple(literals),
        any=one_of(literal.encode() for literal in literals),
        own=frozenset(death.anchor for death in grammar.deaths if not death.weak),
    )
