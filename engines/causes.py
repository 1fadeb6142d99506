"""The catalogue of causes: why a boot or a load failed, whose fault it was, what to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Origin = Literal["engine", "client", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One class of failure.

    Attributes:
        name: the word stored in rows.
        origin: where it lies: the engine or how it was configured, our client, or the host.
        hint: what to change, in one or two sentences.
    """

    name: str
    origin: Origin
    hint: str


def _catalogue(*rows: tuple[str, Origin, str]) -> dict[str, Cause]:
    return {name: Cause(name=name, origin=origin, hint=hint) for name, origin, hint in rows}


CATALOGUE: Final = _catalogue(
    ("unknown", "engine", "Read the stored log; no known pattern explains this end."),
    ("exited", "engine", "The server ended by itself; read the stored log's last lines."),
    ("killed", "host", "Something outside killed the server (exit code 137); look for who did."),
    (
        "never_ready",
        "engine",
        "Raise [timeouts] ready_s, or read the stored log for what it waits.",
    ),
    ("wrong_model", "host", "Another server answers on this port; stop it or change the port."),
    ("no_token", "engine", "The server answered but generated nothing; read the stored log."),
    ("interrupted", "host", "Run the same exec again: it goes on with a new attempt."),
    ("image_missing", "host", "Pull or build the image, or correct its name."),
    ("docker_failed", "host", "Read Docker's own message; `docker info` tells whether it answers."),
    ("launch_failed", "host", "The program could not be started; check its path."),
    ("load_failed", "engine", "Requests failed beyond the limit; see the outcomes of `requests`."),
    ("stalled", "engine", "No token came for longer than [timeouts] request_s."),
)
