"""What a dialect must know: one object per engine, found in `DIALECTS`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.sim.options import Simulate
from engines.sim.profile import Profile
from engines.sim.setup import Setup
from engines.sim.shapes import Shape
from engines.sim.step import Step
from engines.sim.twin import Twin


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of the start-up.

    Attributes:
        name: what is done: `start`, `weights`, `compile`, `profile`, `graphs`, `serve`.
        share: part of the start-up time it takes; all phases and the warm-up together 1.
        lines: what the log says at its end.
    """

    name: str
    share: float
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer to a plain request."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


class Dialect(Protocol):
    """One engine's outside."""

    name: str
    binds_first: bool
    """The port is bound before anything is loaded."""
    warm_share: float
    """Part of the start-up that passes after the port answers."""
    dies_politely: bool
    """When the engine dies, clients get an error before the server ends."""

    def setup(
        self, argv: Sequence[str], simulate: Simulate, profile: Profile
    ) -> tuple[Setup, Shape]:
        """Read the command line; ends the process with code 2 where the engine would."""

    def phases(self, twin: Twin) -> Iterator[Phase]:
        """Yield the start-up."""

    def failure(self, twin: Twin, phase: str) -> str | None:
        """Return the exception that memory forces in a phase, None where it suffices."""

    def crash(self, twin: Twin, phase: str) -> str:
        """Return the exception of a crash that was ordered for a phase."""

    def failed_start(self, twin: Twin, error: str) -> tuple[str, ...]:
        """Return the log of a start that ends with an exception."""

    def death(self, twin: Twin, error: str) -> tuple[str, ...]:
        """Return the log of an engine that dies of an exception while it serves."""

    def first_grammar(self, twin: Twin) -> tuple[tuple[str, ...], bool]:
        """Return what the first constrained request brings: log lines, and whether it survives."""

    def warm(self, twin: Twin) -> tuple[str, ...]:
        """Return what the log says when the server is ready after it listens."""

    def page(self, twin: Twin, method: str, path: str, query: Mapping[str, str]) -> Reply | None:
        """Answer a request that is no completion; None where there is no such page."""

    def periodic_lines(self, twin: Twin, seconds: float) -> tuple[str, ...]:
        """Return what the log says every few seconds of a busy engine."""

    def step_lines(self, twin: Twin, step: Step) -> tuple[str, ...]:
        """Return what the log says of a step."""

    def access_line(self, client: str, request: str, status: int) -> str:
        """Return the log line of one HTTP request."""

    def stop_lines(self, twin: Twin) -> tuple[str, ...]:
        """Return what the log says between SIGTERM and the end."""

    def error_body(self, message: str, status: int) -> bytes:
        """Return the JSON of an error."""
