"""A log read once, in pieces, while it grows: what the server states and what it dies of.

Memory is bounded and every character is looked at a bounded number of times, whatever the log
holds. A grammar that is not told is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from engines import Fact
from engines.lexicon import lexicons
from engines.lines import LONGEST, segments
from engines.track import Track

ACCESS: Final = b'HTTP/1.1" '
"""What a line of the web server's access log bears."""
NOISE_LINE: Final = 2048
"""A longer line is looked at all the same: it is many lines glued together."""

PREFILL: Final = b"#new-token"
_NEW_TOKENS: Final = re.compile(rb"#new-token: (\d{1,12})[,\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a log says.

    Attributes:
        engine: name of the engine; None where the log does not tell.
        version: the server's release as printed; None where it is not.
        outcome: `ready`, `failed`, or `partial` where it neither became ready nor died.
        cause: a name of `engines.causes.CATALOGUE`; None unless it failed.
        phase: the boot phase it died in, `ready` (before it was) or `load`; None unless it failed.
        evidence: the lines that tell so, shortened, the cause's own first.
        facts: the first fact of a name is the server's, further ones are other ranks' or sources'.
    """

    engine: str | None
    version: str | None
    outcome: str
    cause: str | None
    phase: str | None
    evidence: tuple[str, ...]
    facts: tuple[Fact, ...]


class Reader:
    """Reads one log: `feed` its bytes as they come, `close` for the reading.

    Args:
        engine: name of the engine, where it is known; otherwise it is recognised.

    Raises:
        KeyError: no such engine has a log grammar.
    """

    def __init__(self, engine: str | None = None) -> None:
        found = lexicons() if engine is None else {engine: lexicons()[engine]}
        self._tracks = [Track(lexicon) for lexicon in found.values()]
        self._noise = [
            (word, track) for track in self._tracks for word in track.lexicon.grammar.noise
        ]
        self._rest = b""
        self._skipping = False
        self._line = 0
        self._largest_prefill = (0, 0)
        self.examined = 0
        """Characters that were looked at closely, for whoever counts the work."""

    @property
    def ready(self) -> bool:
        """Whether the server has said that it is ready."""
        return any(track.ending.ready for track in self._likeliest())

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the log, cut anywhere."""
        data = self._rest + chunk if self._rest else chunk
        lines = data.split(b"\n")
        self._rest = lines.pop()
        if self._skipping and lines:
            # the end of a line whose beginning was too long to keep
            lines[0] = b""
            self._skipping = False
        self._lines(lines)
        self._bound_rest()

    def close(self) -> Reading:
        """Return what the log says. A last line without its end is taken as cut off."""
        if self._rest and not self._skipping:
            self._line += 1
            self._look(self._rest.decode("utf-8", "replace"), cut=True)
        for track in self._tracks:
            track.close()
        likeliest = self._likeliest()
        told = len(likeliest) == 1 and likeliest[0].votes > 0
        return _reading(likeliest[0], told or len(self._tracks) == 1, self._largest_prefill)

    def _lines(self, lines: Iterable[bytes]) -> None:
        """Read whole lines; those that a serving server prints by the thousand are passed over."""
        for number, line in enumerate(lines, self._line + 1):
            self._line = number
            if len(line) < NOISE_LINE:
                if ACCESS in line or not line:
                    continue
                if self._passed(line, number):
                    continue
            self._look(line.decode("utf-8", "replace"))

    def _passed(self, line: bytes, number: int) -> bool:
        for word, track in self._noise:
            if word in line:
                track.serves()
                return True
        if PREFILL in line:
            self._prefill(line, number)
            return True
        return False

    def _prefill(self, line: bytes, number: int) -> None:
        for track in self._tracks:
            track.votes += track.lexicon.grammar.engine == "sglang"
        for found in _NEW_TOKENS.finditer(line + b"\n"):
            self._largest_prefill = max(self._largest_prefill, (int(found[1]), -number))

    def _look(self, line: str, cut: bool = False) -> None:
        self.examined += min(len(line), LONGEST)
        for segment in segments(line):
            for track in self._tracks:
                track.take(segment, self._line, cut)

    def _bound_rest(self) -> None:
        """Keep a line that does not end within reach: its beginning is read, the rest is not."""
        if len(self._rest) > LONGEST:
            if not self._skipping:
                self._line += 1
                self._look(self._rest[:LONGEST].decode("utf-8", "replace"), cut=True)
                self._line -= 1
            self._skipping = True
            self._rest = b""

    def _likeliest(self) -> list[Track]:
        most = max(track.votes for track in self._tracks)
        return [track for track in self._tracks if track.votes == most]


def _reading(track: Track, told: bool, largest_prefill: tuple[int, int]) -> Reading:
    ending = track.ending
    facts = list(track.facts())
    tokens, line = largest_prefill
    if tokens and track.lexicon.grammar.engine == "sglang":
        facts.append(
            Fact(
                name="largest_prefill_tokens",
                value=tokens,
                source="load",
                line=-line,
                text=f"#new-token: {tokens}",
            )
        )
    facts += ending.facts()
    version = next((str(fact.value) for fact in facts if fact.name == "version"), None)
    return Reading(
        engine=track.lexicon.grammar.engine if told else None,
        version=version,
        outcome=ending.outcome,
        cause=ending.cause,
        phase=ending.phase,
        evidence=ending.evidence,
        facts=tuple(facts),
    )
