"""How a server's life goes by its log: whether it became ready, and what it died of."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
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

_EXCEPTION: Final = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception)(?::\s|$)")
_RAISED: Final = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w+: ")
"""The last line of a traceback, whatever its exception is called."""
_LEAD: Final = re.compile(
    r".*(?:Error|Exception|Exit|error|exception|failed|ERROR|CRITICAL)\s*[:,]\s*"
    r"(?:\[Errno -?\d+\]\s*)?(?:Warning:\s*)?"
)
"""What stands before an error's own message; a quotation of it has something else there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One life, as far as the log has been read.

    Attributes:
        ready: it said that it is ready.
        serving: it printed what only a serving server prints.
        capturing: it is capturing CUDA graphs.
        stopping: it was asked to stop, so what follows is no failure.
        failing: an error was printed that may have ended it.
        tail: a message was printed that only follows a death.
        cause: what it died of; None while nothing says so.
        weak: something more precise may still be found.
        half: an error's message that may go on in the next line, with the lines taken so far.
        evidence: the lines that say so, the cause's own first.
    """

    ready: bool = False
    serving: bool = False
    capturing: bool = False
    stopping: bool = False
    failing: bool = False
    tail: bool = False
    cause: str | None = None
    weak: bool = False
    half: tuple[Death, str, int] | None = None
    evidence: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """`failed`, `ready` or `partial`."""
        if self.failing or self.cause:
            return "failed"
        return "ready" if self.ready else "partial"

    @property
    def phase(self) -> str | None:
        """The phase it died in; None unless it failed."""
        if self.outcome != "failed":
            return None
        return "load" if self.ready or self.cause == "oom_serving" else "ready"

    @property
    def named_cause(self) -> str | None:
        """The cause, `unknown` where it died and nothing says of what."""
        return self.cause or ("unknown" if self.failing else None)

    @property
    def told(self) -> tuple[str, ...]:
        """The evidence without repeats; none unless it failed."""
        if self.outcome != "failed":
            return ()
        lines = tuple(dict.fromkeys(self.evidence))
        # that there was a traceback only says something where nothing else does
        return tuple(line for line in lines if not line.startswith("Traceback (")) or lines

    def facts(self) -> tuple[Fact, ...]:
        """Return what the life itself states."""
        ready = (Fact(name="ready", value=True, source="log"),) if self.ready else ()
        if not self.stopping or self.outcome == "failed":
            return ready
        return (*ready, Fact(name="stopped", value="clean", source="log"))


def literals(grammar: Grammar) -> set[str]:
    """Return every literal that matters to a life."""
    deaths = {death.anchor for death in (*grammar.deaths, *shared.DEATHS)}
    begins, ends = grammar.captures
    words = {*grammar.tails, *shared.TAILS, *grammar.ready, *begins, ends}
    return deaths | words | set(grammar.stops) | set(STOPS)


def lived(life: Life, grammar: Grammar, segment: Segment, borne: set[str]) -> Life:
    """Return the life after one more message, which bears the literals `borne`."""
    if life.stopping and not borne & set(grammar.ready):
        return life
    text = segment.text.strip()
    life = _gone_on(_milestones(life, grammar, borne), segment, text)
    for death in (*grammar.deaths, *shared.DEATHS):
        if death.anchor in borne:
            life = _judged(life, death, segment, text)
    return _with_errors(life, grammar, text, borne)


def progressed(life: Life) -> Life:
    """Return the life after the boot went on: an error nobody named did not end it."""
    if life.failing and not life.tail and life.cause is None:
        return replace(life, failing=False, evidence=())
    return life


def _milestones(life: Life, grammar: Grammar, borne: set[str]) -> Life:
    begins, ends = grammar.captures
    if ends in borne or not borne.isdisjoint(begins):
        life = replace(life, capturing=ends not in borne)
    if borne & set(grammar.ready):
        died = life.cause in SERVING
        life = life if died else replace(life, cause=None, failing=False, tail=False, evidence=())
        life = replace(life, ready=True)
    if borne & {*grammar.stops, *STOPS} and life.outcome != "failed":
        life = replace(life, stopping=True)
    return life


def _gone_on(life: Life, segment: Segment, text: str) -> Life:
    """Try again a message whose pattern may lie across a line end."""
    if life.half is None:
        return life
    death, begun, lines = life.half
    life = replace(life, half=None)
    if segment.prefixed:
        return life
    joined = f"{begun} {text}"
    if death.pattern and death.pattern.search(joined):
        return _dead(life, death, joined)
    return replace(life, half=(death, joined[:4096], lines + 1)) if lines < 3 else life


def _judged(life: Life, death: Death, segment: Segment, text: str) -> Life:
    if not death.bare and not _own_message(death, segment, text):
        return life
    if death.pattern is None or death.pattern.search(text):
        return _dead(life, death, text)
    return life if death.weak or death.bare else replace(life, half=(death, text[:4096], 1))


def _dead(life: Life, death: Death, text: str) -> Life:
    cause = _oom(life) if death.cause == "oom" else death.cause
    if life.ready and cause not in SERVING:
        return life
    refined = life.cause == "oom_load" and cause == "oom_graph_capture"
    if life.cause is None or refined or (life.weak and not death.weak):
        evidence = (text[:TEXT], *life.evidence)[:EVIDENCE]
        return replace(life, cause=cause, weak=death.weak, evidence=evidence)
    return life


def _oom(life: Life) -> str:
    if life.capturing:
        return "oom_graph_capture"
    return "oom_serving" if life.ready or life.serving else "oom_load"


def _with_errors(life: Life, grammar: Grammar, text: str, borne: set[str]) -> Life:
    tail = not borne.isdisjoint(grammar.tails)
    named = bool(_EXCEPTION.match(text) or (life.failing and _RAISED.match(text)))
    error = named or not borne.isdisjoint(shared.TAILS)
    if not tail and (life.ready or not error):
        return life
    evidence = life.evidence
    if len(evidence) < EVIDENCE and (tail or named or not evidence):
        evidence = (*evidence, text[:TEXT] if tail or named else text[-TEXT:])
    return replace(life, failing=True, tail=life.tail or tail, evidence=evidence)


def _own_message(death: Death, segment: Segment, text: str) -> bool:
    """Tell whether the words are an error's own message, not a quotation or a piece of advice."""
    found = death.pattern.search(text) if death.pattern else None
    start = text.find(death.anchor)
    lead = text[: min(start, found.start()) if found else start]
    if not lead.strip():
        return not segment.prefixed or segment.level in ("ERROR", "CRITICAL")
    return bool(_LEAD.fullmatch(lead))
