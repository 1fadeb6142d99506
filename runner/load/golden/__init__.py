"""A server whose every token is due at a known time, to measure clients against.

It writes down the truth: when the kernel received each request and when each token was sent. On
demand it misbehaves in every way a server has been seen to. `python -m runner.load.golden --help`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_type_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one request is answered. Token k is due at arrival + TTFT + jitter + k * ITL.

    Attributes:
        ttft_s: time to the first token.
        jitter_s: the TTFT is longer by a random time of up to this.
        itl_s: time between tokens.
        chunk_tokens: tokens in each event; the event is due with its last token.
        write_events: events in each write; the write is due with its last event.
        split_bytes: cut every write into pieces of this size, 0 for whole writes.
        head_delay_s: wait before the answer's head.
        stall_at: token before which the stream stalls.
        stall_s: for how long.
        status: answer with this status and an error body instead.
        in_band_at: token in whose place an in-band error comes.
        abort_at: token before which the connection is closed; -1 does not.
        reset_at: token before which the connection is reset; -1 does not.
        silent_at: token before which the server falls silent for ever; -1 does not.
        output_tokens: tokens to send whatever was asked, 0 for what was asked.
        usage: where token counts are sent; `asked` does what the request's stream_options say.
        usage_off: tokens by which the final count is wrong.
        done: send `[DONE]`.
        finish: send a finish reason.
        keep_alive: let the connection be used again.
        chunked: frame the body in chunks; without, it ends with the connection.
        crlf: end lines with CRLF instead of LF.
        comments: send a comment before each event.
        interim: send a `100 Continue` first.
        garbage: send this in the place of the first event's JSON.
    """

    ttft_s: float = 0.1
    jitter_s: float = 0.0
    itl_s: float = 0.01
    chunk_tokens: int = 1
    write_events: int = 1
    split_bytes: int = 0
    head_delay_s: float = 0.0
    stall_at: int = -1
    stall_s: float = 0.0
    status: int = 200
    in_band_at: int = -1
    abort_at: int = -1
    reset_at: int = -1
    silent_at: int = -1
    output_tokens: int = 0
    usage: Literal["asked", "continuous", "final", "none"] = "asked"
    usage_off: int = 0
    done: bool = True
    finish: bool = True
    keep_alive: bool = True
    chunked: bool = True
    crlf: bool = False
    comments: bool = False
    interim: bool = False
    garbage: str = ""

    def but(self, changes: Mapping[str, object]) -> Plan:
        """Return the plan with some fields changed.

        Raises:
            ValueError: a name or a value's type is wrong.
        """
        kinds = get_type_hints(Plan)
        for name, value in changes.items():
            if name not in kinds:
                raise ValueError(f"a plan has no {name!r}; it has {', '.join(kinds)}")
            wanted = (int, float) if kinds[name] is float else kinds[name]
            if isinstance(wanted, type | tuple) and not isinstance(value, wanted):
                raise ValueError(f"{name} takes {kinds[name].__name__}, not {value!r}")
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Changes to the plan of every n-th request, counted from 1."""

    nth: int
    changes: Mapping[str, object]


def plan_for(number: int, plan: Plan, everys: tuple[Every, ...]) -> Plan:
    """Return the plan of a request by its number from 1; the first rule that fits changes it."""
    for every in everys:
        if number % every.nth == 0:
            return plan.but(every.changes)
    return plan
