"""How a server's life goes by its log: whether it became ready, and what it died of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from engines import Fact
from engines import deaths as shared
from engines.grammar import Death, Grammar
from engines.lines import Segment

SERVING: Final = frozenset(
    {"oom_serving", "nccl_failed", "host_memory", "driver_mismatch", "shm_too_small", "killed"}
)
"""Causes that end a server which is ready; any other error then concerns one request."""

STOPS: Final = ("Shutting down", "KeyboardInterrupt")
EVIDENCE: Final = 5
TEXT: Final = 300

_EXCEPTION: Final = re.compile(r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception)(?::\s|$)")
_LEAD: Final = re.compile(
    r"(?:.*(?:Error|Exception|Exit|error|exception|failed|Value error|ERROR|CRITICAL)\s*[:,]\s*)"
    r"(?:\[Errno -?\d+\]\s*)?"
)
"""What stands before an error's own message, so that a quotation of it does not count."""


@dataclass(slots=True)
class Ending:
    """The state of one life.

    Attributes:
        grammar: whose words count.
        ready: it said that it is ready.
        serving: it printed what only a serving server prints.
        cause: why it died; None while nothing says so.
        evidence: the lines that say so.
    """

    grammar: Grammar
    ready: bool = False
    serving: bool = False
    cause: str | None = None
    _evidence: list[str] = field(default_factory=list)
    _weak: bool = False
    _failing: bool = False
    _tail: bool = False
    _stopping: bool = False
    _capturing: bool = False
    _half: tuple[Death, str, int] | None = None

    @staticmethod
    def literals(grammar: Grammar) -> set[str]:
        """Return every literal that a line must bear to matter here."""
        deaths = {death.anchor for death in (*grammar.deaths, *shared.DEATHS)}
        words = {*grammar.tails, *shared.TAILS, *grammar.ready, *grammar.captures}
        return deaths | words | set(grammar.stops) | set(STOPS)

    @property
    def waits(self) -> bool:
        """Whether an error's message may go on in the next line."""
        return self._half is not None

    @property
    def outcome(self) -> str:
        """`failed`, `ready` or `partial`."""
        if self._failing or self.cause:
            return "failed"
        return "ready" if self.ready else "partial"

    @property
    def phase(self) -> str | None:
        """The phase it died in, None unless it failed."""
        if self.outcome != "failed":
            return None
        return "load" if self.ready or self.cause == "oom_serving" else "ready"

    @property
    def evidence(self) -> tuple[str, ...]:
        """The lines that tell the cause, its own first; none unless it failed."""
        return tuple(dict.fromkeys(self._evidence)) if self.outcome == "failed" else ()

    def take(self, segment: Segment, anchors: set[str]) -> None:
        """Read one message that bears a literal of this grammar or looks like an error."""
        text = segment.text.strip()
        if self._stopping and not anchors & set(self.grammar.ready):
            return
        self._milestones(anchors)
        self._go_on(segment, text)
        for death in (*self.grammar.deaths, *shared.DEATHS):
            if death.anchor in anchors:
                self._judge(death, segment, text)
        self._errors(segment, text, anchors)

    def progress(self) -> None:
        """Take note that the boot went on: an error nobody named did not end it."""
        if self._failing and not self._tail and self.cause is None:
            self._failing = False
            self._evidence = []

    def close(self) -> None:
        """Name the cause `unknown` where the server died and nothing says why."""
        if self._failing and self.cause is None:
            self.cause = "unknown"

    def facts(self) -> list[Fact]:
        """Return what the life itself states."""
        found = []
        if self.ready:
            found.append(Fact(name="ready", value=True, source="log"))
        if self._stopping and self.outcome != "failed":
            found.append(Fact(name="stopped", value="clean", source="log"))
        return found

    def _milestones(self, anchors: set[str]) -> None:
        if anchors & set(self.grammar.ready):
            self.ready = True
            if self.cause not in SERVING:
                self.cause, self._failing, self._tail, self._evidence = None, False, False, []
        begins, ends = self.grammar.captures
        self._capturing = ends not in anchors and (self._capturing or begins in anchors)
        stops = anchors & {*self.grammar.stops, *STOPS}
        if stops and self.outcome != "failed":
            self._stopping = True

    def _go_on(self, segment: Segment, text: str) -> None:
        """Try again a message whose pattern may lie across a line end."""
        if self._half is None:
            return
        death, begun, lines = self._half
        self._half = None
        if segment.prefixed:
            return
        joined = f"{begun} {text}"
        if death.pattern and death.pattern.search(joined):
            self._die(death, joined)
        elif lines < 3:
            self._half = (death, joined, lines + 1)

    def _judge(self, death: Death, segment: Segment, text: str) -> None:
        if not death.bare and not _own_message(death, segment, text):
            return
        if death.pattern and not death.pattern.search(text):
            self._half = (death, text, 1) if not death.weak else self._half
            return
        self._die(death, text)

    def _die(self, death: Death, text: str) -> None:
        cause = death.cause if death.cause != "oom" else self._oom()
        if self.ready and cause not in SERVING:
            return
        refined = self.cause == "oom_load" and cause == "oom_graph_capture"
        if self.cause is None or (self._weak and not death.weak) or refined:
            self.cause, self._weak = cause, death.weak
            self._evidence.insert(0, text[:TEXT])
            del self._evidence[EVIDENCE:]

    def _oom(self) -> str:
        if self._capturing:
            return "oom_graph_capture"
        return "oom_serving" if self.ready or self.serving else "oom_load"

    def _errors(self, segment: Segment, text: str, anchors: set[str]) -> None:
        tail = bool(anchors & {*self.grammar.tails})
        error = bool(_EXCEPTION.match(text)) or bool(anchors & {*shared.TAILS})
        if not tail and not (error and not self.ready):
            return
        self._failing = True
        self._tail = self._tail or tail
        if len(self._evidence) < EVIDENCE and (tail or _EXCEPTION.match(text)):
            self._evidence.append(text[:TEXT])
        elif not self._evidence:
            self._evidence.append(text[-TEXT:])


def _own_message(death: Death, segment: Segment, text: str) -> bool:
    """Tell whether the words are an error's own message, not a quotation or a piece of advice."""
    start = text.find(death.anchor)
    if death.pattern:
        found = death.pattern.search(text)
        start = min(start, found.start()) if found else start
    lead = text[:start]
    if not lead.strip():
        return not segment.prefixed or segment.level in ("ERROR", "CRITICAL")
    return bool(_LEAD.fullmatch(lead))
