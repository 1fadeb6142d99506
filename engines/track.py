"""One grammar's way through a log: its messages put together, its facts collected."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from engines import Fact, Value
from engines.ending import Life, lived, progressed
from engines.grammar import Found, Rule, complete, statements
from engines.lexicon import Lexicon
from engines.lines import SEAM, Segment

MOST: Final = 20_000
"""Statements kept of one log; a server of a thousand ranks makes fewer."""
ENOUGH_VOTES: Final = 40
"""Messages after which the signs of an engine are no longer looked for."""
LONGEST_MESSAGE: Final = 64 * 1024
TEXT: Final = 300
ERRORS: Final = ("rror", "xception", "Failed: ")
"""Parts of a message that may name an error."""

_BROKEN: Final = re.compile(r"[\d,]$")
_NUMBER_AT_END: Final = re.compile(r"\d$")
_REST_OF_NUMBER: Final = re.compile(r"[\d.,]*\d[,.\s)\]}]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """A message that may go on in the next line.

    Attributes:
        rule: its kind.
        text: what of it has been read.
        rank: who printed it.
        tag: its process tag.
        lines: further lines it has taken.
        line: number of its first line.
    """

    rule: Rule
    text: str
    rank: str
    tag: str = ""
    lines: int = 0
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class State:
    """All that a line may change, besides the facts."""

    life: Life = field(default_factory=Life)
    open: tuple[Open, ...] = ()

    @property
    def quiet(self) -> bool:
        """Whether the next line can be read by itself."""
        return not self.open and self.life.half is None


@dataclass(slots=True)
class Track:
    """What one grammar makes of a log.

    Attributes:
        lexicon: the grammar and its literals.
        votes: messages that only this engine prints.
        state: where it stands.
        found: statements so far, never taken back.
    """

    lexicon: Lexicon
    votes: int = 0
    state: State = field(default_factory=State)
    found: list[Found] = field(default_factory=list)
    _messages: set[int] = field(default_factory=set)
    _time: str = ""
    _falling: int = 0

    def take(self, segment: Segment, line: int, cut: bool) -> None:
        """Read one message; `cut` says that its line ends where it was not meant to."""
        self._clock(segment.time)
        borne = self.lexicon.borne(segment.text)
        rules = [rule for literal in borne for rule in self.lexicon.rules.get(literal, ())]
        if self.state.open:
            starts = [segment.text.find(rule.anchor) for rule in rules]
            self._continue(segment, min(starts, default=None))
        torn = cut or segment.cut
        for rule in rules:
            text = segment.text + (SEAM if torn else "")
            self._begin(
                Open(rule=rule, text=text, rank=segment.rank, tag=segment.tag, line=line), torn
            )
        life = self.state.life
        if borne or life.half or any(word in segment.text for word in ERRORS):
            self.votes += not borne.isdisjoint(self.lexicon.own)
            after = lived(life, self.lexicon.grammar, segment, borne)
            self.state = replace(self.state, life=after)
        if self.votes < ENOUGH_VOTES:
            whole = segment.tag + segment.text
            self.votes += any(sign in whole for sign in self.lexicon.grammar.signs)

    def serves(self) -> bool:
        """Take note of a line that only this engine prints while it serves; is that new?"""
        self.votes += 1
        new = not self.state.life.serving
        if new:
            self.state = replace(self.state, life=replace(self.state.life, serving=True))
        return new

    def close(self) -> None:
        """Read what was still waiting for its end."""
        for message in self.state.open:
            self._read(message)
        self.state = replace(self.state, open=())

    def facts(self) -> Iterator[Fact]:
        """Yield the server's facts, its own before its ranks'."""
        found = self.found
        if self._falling > 0:
            # the newest line comes first: turn it round
            found = [replace(each, order=-each.order) for each in reversed(found)]
        yield from (each.fact for each in self.lexicon.grammar.settle(found))

    def _begin(self, message: Open, cut: bool) -> None:
        broken = bool(_BROKEN.search(message.text))
        if cut or (_done(message) and not broken):
            self._read(message)
        else:
            self.state = replace(self.state, open=(*self.state.open, message))

    def _continue(self, segment: Segment, until: int | None) -> None:
        """Give a line to the messages that wait for more, and read those that need no more.

        `until` is where a message of its own begins within the line, None where none does.
        """
        waiting: list[Open] = []
        text = segment.text[:until]
        for message in self.state.open:
            longer = message
            if not segment.prefixed and text.strip() and segment.tag in ("", message.tag):
                longer = _joined(message, text)
                if until is None and longer.lines < message.rule.lines and not _done(longer):
                    waiting.append(longer)
                    continue
            self._read(longer)
        self.state = replace(self.state, open=tuple(waiting))

    def _read(self, message: Open) -> None:
        stated = list(statements(message.rule, message.text))
        if message.lines and message.rule.lines > 3:
            # a configuration line may be broken in the middle of its words
            known = {of.fact for of, _ in stated}
            glued = statements(message.rule, message.text.replace(SEAM, ""))
            stated += [each for each in glued if each[0].fact not in known]
        if not stated:
            return
        if not message.rule.shared:
            self.votes += 1
            self.state = replace(self.state, life=progressed(self.state.life))
        key = hash((message.rule.anchor, message.text, message.rank))
        if key in self._messages or len(self.found) >= MOST:
            return
        self._messages.add(key)
        facts = [(of.fact, value, of.weight) for of, value in stated]
        facts += [(name, value, 1) for name, value in message.rule.states.items()]
        self.found += [_found(message, *each) for each in facts]

    def _clock(self, time: str) -> None:
        """Count whether the lines' times rise or fall: some tools print the newest first."""
        if time:
            if self._time:
                self._falling += (time < self._time) - (time > self._time)
            self._time = time


def _found(message: Open, name: str, value: Value, weight: int) -> Found:
    text = message.text.strip().replace(SEAM, " ")[:TEXT]
    fact = Fact(
        name=name, value=value, source="log", rank=message.rank, line=message.line, text=text
    )
    return Found(fact, weight, message.line)


def _done(message: Open) -> bool:
    stated = frozenset(of.fact for of, _ in statements(message.rule, message.text))
    return complete(message.rule, message.text, stated)


def _joined(message: Open, text: str) -> Open:
    """Return a message with one more line, joined so that no number is made or cut by it."""
    whole = message.text
    if len(whole) + len(text) <= LONGEST_MESSAGE:
        cut = _NUMBER_AT_END.search(whole) and _REST_OF_NUMBER.match(text)
        whole += (SEAM if message.rule.lines > 3 or cut else " ") + text
    return replace(message, text=whole, lines=message.lines + 1)
