"""Where each key of a TOML text stands, which `tomllib` does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

Place = tuple[str | int, ...]
"""Path of a key or of an element, as `("loads", 0, "concurrency", 1)`."""

WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""What may name a section, a load or a file: words that are safe in a path."""

_TOKEN = re.compile(
    r"""(?P<text>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
      | (?P<skip>[ \t\r]+|\#[^\n]*)
      | (?P<mark>[\[\]{}=,.\n])
      | (?P<bare>[^\s\[\]{}=,.#"']+)""",
    re.VERBOSE | re.DOTALL,
)


def spelled(place: Place) -> str:
    """Return a place as a reader writes it, `loads[0].concurrency`."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def places_of(text: str) -> dict[Place, int]:
    """Return the line, from 1, of every header, key and element of a TOML text that parses."""
    reader = _Reader(tokens=list(_tokens(text)))
    while reader.kind != "end":
        reader.statement()
    return reader.found


def line_of(place: Place, lines: Mapping[Place, int]) -> tuple[int, int | None]:
    """Return how much of a place is known, in parts, and the line of that beginning."""
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return length, lines[place[:length]]
    return 0, None


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (kind, text, line) without blanks and comments, and an end."""
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "skip":
            yield match.lastgroup or "", match.group(), line
        line += match.group().count("\n")
    yield "end", "", line


@dataclass
class _Reader:
    """Walks over the tokens and notes where each key begins."""

    tokens: list[tuple[str, str, int]]
    at: int = 0
    table: Place = ()
    found: dict[Place, int] = field(default_factory=dict)
    counts: dict[Place, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    @property
    def line(self) -> int:
        return self.tokens[self.at][2]

    def next(self) -> str:
        """Return the current token's text and move on; the end stays where it is."""
        text = self.text
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return text

    def statement(self) -> None:
        if self.text == "\n" and self.kind == "mark":
            self.next()
        elif self.text == "[" and self.kind == "mark":
            self.header()
        else:
            self.pair(self.table)

    def header(self) -> None:
        line = self.line
        self.next()
        array = self.is_mark("[")
        if array:
            self.next()
        self.table = self._numbered(self.key(), array=array)
        self.note(self.table, line)
        while not self.is_mark("\n") and self.kind != "end":
            self.next()

    def pair(self, table: Place) -> None:
        line = self.line
        place = table + self.key()
        self.note(place, line)
        if self.is_mark("="):
            self.next()
        self.value(place)

    def key(self) -> Place:
        """Return the parts of a dotted key, and stand behind it."""
        parts: list[str] = []
        while self.kind in {"text", "bare"} or self.is_mark("."):
            word = self.next()
            if word != ".":
                parts.append(_unquoted(word))
        if not parts:
            self.next()
        return tuple(parts)

    def value(self, place: Place) -> None:
        if self.is_mark("["):
            self.array(place)
        elif self.is_mark("{"):
            self.inline_table(place)
        else:
            while self.kind in {"text", "bare"} or self.is_mark("."):
                self.next()

    def array(self, place: Place) -> None:
        self.next()
        number = 0
        while not self.is_mark("]") and self.kind != "end":
            if self.is_mark(",") or self.is_mark("\n"):
                self.next()
                continue
            self.note((*place, number), self.line)
            self.value((*place, number))
            number += 1
        self.next()

    def inline_table(self, place: Place) -> None:
        self.next()
        while not self.is_mark("}") and self.kind != "end":
            if self.is_mark(",") or self.is_mark("\n"):
                self.next()
            else:
                self.pair(place)
        self.next()

    def is_mark(self, mark: str) -> bool:
        return self.kind == "mark" and self.text == mark

    def note(self, place: Place, line: int) -> None:
        """Keep the first line of a place, and of every table it stands in."""
        for length in range(1, len(place) + 1):
            self.found.setdefault(place[:length], line)

    def _numbered(self, parts: Place, *, array: bool) -> Place:
        """Number the entries of an array of tables, and of the one that a sub-table belongs to."""
        place: Place = ()
        for depth, part in enumerate(parts, start=1):
            place += (part,)
            if array and depth == len(parts):
                self.counts[place] = self.counts.get(place, -1) + 1
            if place in self.counts:
                place += (self.counts[place],)
        return place


def _unquoted(word: str) -> str:
    """Return a key without its quotes; escapes in keys are rare and stay as written."""
    return word[1:-1] if word[0] in "\"'" else word
