"""One grammar's way through a log: its messages put together, its facts collected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from engines import Fact, Value
from engines.ending import Ending
from engines.grammar import Found, Rule, complete, statements
from engines.lexicon import Lexicon
from engines.lines import SEAM, Segment

MOST: Final = 20_000
"""Statements kept of one log; a server of a thousand ranks makes fewer."""
LONGEST_MESSAGE: Final = 64 * 1024
TEXT: Final = 300

_BROKEN: Final = re.compile(r"[\d,]$")
_NUMBER_AT_END: Final = re.compile(r"\d$")
_REST_OF_NUMBER: Final = re.compile(r"[\d.,]*\d[,.\s)\]}]")


@dataclass(slots=True)
class _Open:
    """A message that is not complete yet."""

    rule: Rule
    segment: Segment
    line: int
    text: str
    lines: int


@dataclass(slots=True)
class Track:
    """What one grammar makes of a log.

    Attributes:
        lexicon: the grammar and its literals.
        votes: messages that only this engine prints.
        ending: how the server's life goes.
    """

    lexicon: Lexicon
    votes: int = 0
    ending: Ending = field(init=False)
    _found: list[Found] = field(default_factory=list)
    _keys: set[tuple[str, Value, str, int]] = field(default_factory=set)
    _open: list[_Open] = field(default_factory=list)
    _time: str = ""
    _falling: int = 0

    def __post_init__(self) -> None:
        """Begin a life."""
        self.ending = Ending(self.lexicon.grammar)

    def take(self, segment: Segment, line: int, cut: bool) -> None:
        """Read one message; `cut` says that its line ends where it was not meant to."""
        self._clock(segment.time)
        borne = self.lexicon.borne(segment.text)
        rules = [rule for literal in borne for rule in self.lexicon.rules.get(literal, ())]
        if self._open:
            self._continue(segment, starts=bool(rules))
        for rule in rules:
            self._begin(rule, segment, line, cut)
        if borne or self.ending.waits or "rror" in segment.text or "xception" in segment.text:
            self.votes += bool(borne & self.lexicon.own)
            self.ending.take(segment, borne)

    def serves(self) -> None:
        """Take note of a line that only this engine prints, and only while it serves."""
        self.votes += 1
        self.ending.serving = True

    def close(self) -> None:
        """Read what was still waiting for its end."""
        for message in self._open:
            self._state(message)
        self._open = []
        self.ending.close()

    def facts(self) -> Iterator[Fact]:
        """Yield the server's facts, its own before its ranks'."""
        found = self._found
        if self._falling > 0:
            # newest first: turn it round
            found = [replace(each, order=-each.order) for each in reversed(found)]
        yield from (each.fact for each in self.lexicon.grammar.settle(found))

    def _begin(self, rule: Rule, segment: Segment, line: int, cut: bool) -> None:
        message = _Open(rule, segment, line, segment.text + (SEAM if cut else ""), 0)
        broken = bool(_BROKEN.search(segment.text))
        if cut or (_done(message) and not broken):
            self._state(message)
        else:
            self._open.append(message)

    def _continue(self, segment: Segment, starts: bool) -> None:
        """Give a line to the messages that wait for more, and read those that need no more."""
        waiting: list[_Open] = []
        for message in self._open:
            if not segment.prefixed and not starts:
                _join(message, segment.text)
                if message.lines < message.rule.lines and not _done(message):
                    waiting.append(message)
                    continue
            self._state(message)
        self._open = waiting

    def _state(self, message: _Open) -> None:
        stated = list(statements(message.rule, message.text))
        if message.lines and message.rule.lines > 3:
            # a configuration line broken in the middle of its words
            known = {of.fact for of, _ in stated}
            glued = statements(message.rule, message.text.replace(SEAM, ""))
            stated += [each for each in glued if each[0].fact not in known]
        if stated and not message.rule.shared:
            self.votes += 1
            self.ending.progress()
        for of, value in stated:
            self._keep(of.fact, value, of.weight, message)
        if stated:
            for name, value in message.rule.states.items():
                self._keep(name, value, 1, message)

    def _keep(self, name: str, value: Value, weight: int, message: _Open) -> None:
        key = (name, value, message.segment.rank, weight)
        again = key in self._keys and not name.startswith("pool_")
        if again or len(self._found) >= MOST:
            return
        self._keys.add(key)
        fact = Fact(
            name=name,
            value=value,
            source="log",
            rank=message.segment.rank,
            line=message.line,
            text=message.text.strip().replace(SEAM, " ")[:TEXT],
        )
        self._found.append(Found(fact, weight, message.line))

    def _clock(self, time: str) -> None:
        """Count whether the lines' times rise or fall: some tools print the newest first."""
        if time:
            if self._time:
                self._falling += (time < self._time) - (time > self._time)
            self._time = time


def _done(message: _Open) -> bool:
    stated = frozenset(of.fact for of, _ in statements(message.rule, message.text))
    return complete(message.rule, message.text, stated)


def _join(message: _Open, text: str) -> None:
    message.lines += 1
    if len(message.text) + len(text) > LONGEST_MESSAGE:
        return
    if message.rule.lines > 3:
        # what was broken is only known where it is glued again: at words, or within them
        message.text += SEAM + text
    elif _NUMBER_AT_END.search(message.text) and _REST_OF_NUMBER.match(text):
        message.text += SEAM + text
    else:
        message.text += " " + text
