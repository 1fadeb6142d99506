"""A log read once, in pieces, while it grows: what the server states and what it dies of.

Memory is bounded and every character is looked at a bounded number of times, whatever the log
holds. A grammar that is not told is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, cast

from engines import Fact
from engines.lexicon import lexicons
from engines.lines import LONGEST, segments
from engines.recall import VARIES, Recall, one_of
from engines.track import ENOUGH_VOTES, ERRORS, State, Track

ACCESS: Final = b'HTTP/1.1" '
"""What a line of the web server's access log bears."""
SHORT: Final = 2048
"""A longer line is looked at whatever it bears: it may be many lines glued together."""
HEAD: Final = 256
"""Bytes of a line within which a message begins."""
PREFILL: Final = b"#new-token: "

_NEW_TOKENS: Final = re.compile(rb"#new-token: (\d{1,12})(?![\d.])")


_HIDES: Final = re.compile(rb"\x1b|\\|\[\d{1,3}(?:;\d{1,3})*m")
"""Colours and escapes, which may stand in the middle of a literal."""


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
        known = lexicons()
        found = [known[engine]] if engine is not None else list(known.values())
        self._literals = {*ERRORS, *(word for each in found for word in each.literals)}
        signs = {sign for each in found for sign in each.grammar.signs}
        self._matters = one_of(word.encode() for word in self._literals | signs)
        self._tracks = tuple(Track(lexicon) for lexicon in found)
        self._noise = _noise(self._tracks)
        self._quotes = tuple(word for each in found for word in each.grammar.quotes)
        self._recall = Recall(self._literals)
        self._at = self._held = self._recall.number(self._states(), quiet=True)
        self._quiet = True
        self._rest = b""
        self._skipping = False
        self._line = 0
        self._largest_prefill = (0, 0)
        self.examined = 0
        """Characters that were looked at closely, for whoever counts the work."""

    @property
    def ready(self) -> bool:
        """Whether the server has said that it is ready."""
        self._take_up()
        return any(track.state.life.ready for track in self._likeliest())

    @property
    def cause(self) -> str | None:
        """What it has said so far that it dies of; None while it names nothing."""
        self._take_up()
        return next((track.state.life.cause for track in self._likeliest()), None)

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the log, cut anywhere."""
        lines = (self._rest + chunk if self._rest else chunk).split(b"\n")
        self._rest = lines.pop()
        if self._skipping and lines:
            # the end of a line whose beginning was read already
            lines[0] = b""
            self._skipping = False
        self._lines(lines)
        if len(self._rest) > LONGEST:
            self._begin_endless()

    def close(self) -> Reading:
        """Return what the log says. A last line without its end is taken as cut off."""
        self._take_up()
        if self._rest and not self._skipping:
            self._line += 1
            self._look(self._rest, cut=True)
        for track in self._tracks:
            track.close()
        likeliest = self._likeliest()
        told = len(self._tracks) == 1 or (len(likeliest) == 1 and likeliest[0].votes > 0)
        # where the log does not tell whose it is, the grammar that explains more speaks
        track = max(likeliest, key=lambda each: (bool(each.state.life.cause), len(each.found)))
        return _reading(track, told, self._largest_prefill)

    def _lines(self, lines: Iterable[bytes]) -> None:
        """Read whole lines; what lines like them did before is not looked at again."""
        number = self._line
        for line in lines:
            number += 1
            # these questions are all that most lines ever meet
            if self._quiet and line.translate(None, VARIES) in self._recall.kinds:
                continue
            if PREFILL in line and len(line) < SHORT:
                self._prefill(line, number)
                continue
            after = self._recall.after.get((self._at, line))
            if after is not None:
                self._at, self._quiet = after, self._recall.quiet[after]
                continue
            self._line = number
            self._take_up()
            is_short = len(line) < SHORT
            if line and not self._is_quote(line) and not (is_short and self._is_noise(line)):
                self._learn(line)
        self._line = number

    def _is_quote(self, line: bytes) -> bool:
        """Tell whether a line quotes a request, which may hold any words at all."""
        head = line[:HEAD]
        return any(word in head for word in self._quotes)

    def _prefill(self, line: bytes, number: int) -> None:
        found = _NEW_TOKENS.search(line)
        if found and int(found[1]) > self._largest_prefill[0]:
            self._largest_prefill = (int(found[1]), number)
        if len(self._tracks) > 1:
            for track in self._tracks:
                track.votes += track.lexicon.grammar.engine == "sglang"

    def _is_noise(self, line: bytes) -> bool:
        for word, track in self._noise:
            if word in line:
                if track.serves():
                    self._here()
                self._recall.pass_over(line)
                return True
        if ACCESS in line:
            self._recall.pass_over(line)
            return True
        return False

    def _learn(self, line: bytes) -> None:
        """Look at a line, and remember what it did where it added no fact."""
        recall, before, alone = self._recall, self._at, self._quiet
        facts = sum(len(track.found) for track in self._tracks)
        if not alone or self._may_matter(line):
            self._look(line)
            self._here()
        same = facts == sum(len(track.found) for track in self._tracks)
        if same and self._recall is recall:
            recall.add(line, before, self._at, alone=alone)
        self._decide()

    def _may_matter(self, line: bytes) -> bool:
        """Tell whether a line bears a literal, or hides what it bears in colours or escapes."""
        return bool(self._matters.search(line) or _HIDES.search(line))

    def _look(self, line: bytes, cut: bool = False) -> None:
        text = line[: 4 * LONGEST].decode("utf-8", "replace")
        self.examined += min(len(text), LONGEST)
        for segment in segments(text):
            for track in self._tracks:
                track.take(segment, self._line, cut)

    def _here(self) -> None:
        """Number the present state."""
        if self._recall.full:
            self._recall = Recall(self._literals)
        states = self._states()
        self._quiet = all(state.quiet for state in states)
        self._at = self._held = self._recall.number(states, quiet=self._quiet)

    def _take_up(self) -> None:
        """Give the tracks the state that remembered lines have led to."""
        if self._held != self._at:
            states = cast("tuple[State, ...]", self._recall.states[self._at])
            for track, state in zip(self._tracks, states, strict=True):
                track.state = state
            self._held = self._at

    def _decide(self) -> None:
        """Give up the other tracks once the engine is plain."""
        if len(self._tracks) == 1:
            return
        ranked = sorted(self._tracks, key=lambda track: -track.votes)
        if ranked[0].votes >= max(ENOUGH_VOTES, 10 * ranked[1].votes):
            self._tracks = (ranked[0],)
            self._noise = _noise(self._tracks)
            self._recall = Recall(self._literals)
            self._here()

    def _states(self) -> tuple[State, ...]:
        return tuple(track.state for track in self._tracks)

    def _begin_endless(self) -> None:
        """Read the beginning of a line that does not end within reach; its rest is dropped."""
        if not self._skipping:
            self._line += 1
            self._take_up()
            self._look(self._rest, cut=True)
            self._here()
            self._line -= 1
        self._skipping = True
        self._rest = b""

    def _likeliest(self) -> list[Track]:
        most = max(track.votes for track in self._tracks)
        return [track for track in self._tracks if track.votes == most]


def _noise(tracks: Iterable[Track]) -> tuple[tuple[bytes, Track], ...]:
    return tuple((word, track) for track in tracks for word in track.lexicon.grammar.noise)


def _reading(track: Track, told: bool, largest_prefill: tuple[int, int]) -> Reading:
    life, grammar = track.state.life, track.lexicon.grammar
    facts = [*track.facts(), *life.facts()]
    tokens, line = largest_prefill
    if tokens and grammar.engine == "sglang":
        text = f"#new-token: {tokens}"
        name = "largest_prefill_tokens"
        facts.append(Fact(name=name, value=tokens, source="load", line=line, text=text))
    version = next((str(fact.value) for fact in facts if fact.name == "version"), None)
    return Reading(
        engine=grammar.engine if told else None,
        version=version,
        outcome=life.outcome,
        cause=life.named_cause,
        phase=life.phase,
        evidence=life.told,
        facts=tuple(facts),
    )
