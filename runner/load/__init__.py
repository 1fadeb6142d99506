"""The measuring client. Standard library only: its workers must start fast and do little.

The door is narrow: `drive.drive` sends prepared requests to one address and gives back one
timeline per request and the proof of its own accuracy. It knows nothing of engines, experiments,
rows or tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a load goes.

    Attributes:
        host: address.
        port: port.
        path: request path, as `/v1/completions`.
        tls: HTTPS.
        headers: further request headers (an API key); their values are never stored.
        way: how the address reaches the server, stored with the load.
    """

    host: str
    port: int
    path: str
    tls: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    way: str = "loopback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to send, body ready.

    Attributes:
        body: the JSON body.
        input_tokens: prompt length asked, None where text makes it unknown.
        output_tokens: output length asked; None where the server decides.
        group: what belongs together (a prefix, a session).
        role: part it plays (`victim`, `injected`, `background`).
        due_s: intended time after the window opens (open loop); None in closed loop.
        after: this is a later turn: it waits for the answer to the ask of this number (from 0,
            counted within the window or within the warm-up) and has no `due_s`.
        think_s: how long after that answer it is due.
        keep_answer: its timeline has the answer's text, and token ids where the stream has them.
    """

    body: bytes
    input_tokens: int | None = None
    output_tokens: int | None = None
    group: str = ""
    role: str = ""
    due_s: float | None = None
    after: int | None = None
    think_s: float = 0.0
    keep_answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened to one request. Times are CLOCK_MONOTONIC nanoseconds.

    Attributes:
        request: number within the load, from 0, in the order asked.
        group: as asked.
        role: as asked.
        warmup: it belongs to the warm-up, not to the window.
        intended_ns: when it was due (open loop), None in closed loop.
        sent_ns: just before the request was written.
        first_ns: first chunk that carries a token; None when none came.
        last_ns: last chunk that carries a token.
        ended_ns: end of the answer or of the wait for it.
        chunk_ns: arrival of each chunk that carries tokens.
        chunk_tokens: tokens of each of those chunks.
        stamp: `kernel` when all chunk times are the kernel's, else `user`.
        input_tokens: the server's own count.
        output_tokens: the server's own count.
        cached_tokens: prompt tokens the server says came from its prefix cache.
        outcome: `ok`, or a class of failure: `refused`, `reset`, `timeout`, `status`, `in_band`,
            `truncated`, `wrong_length`, `no_usage`, `cancelled`, `malformed`.
        detail: status, error text or lengths of a failure, at most 300 characters.
        answer: the answer's text; None where it was not asked for, or is over 64 KiB.
        answer_ids: its token ids; None where it was not asked for, or the stream has none.
    """

    request: int
    group: str = ""
    role: str = ""
    warmup: bool = False
    intended_ns: int | None = None
    sent_ns: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    ended_ns: int = 0
    chunk_ns: tuple[int, ...] = ()
    chunk_tokens: tuple[int, ...] = ()
    stamp: str = "user"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    outcome: str = "ok"
    detail: str = ""
    answer: str | None = None
    answer_ids: tuple[int, ...] | None = None
