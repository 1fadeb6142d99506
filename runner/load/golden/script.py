"""From a plan to the exact bytes of an answer and the time each piece is due. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from runner.load.golden import Plan

Ending = Literal["keep", "close", "reset", "silent"]

_REASONS: Final = {200: "OK", 307: "Temporary Redirect", 429: "Too Many Requests",
                   500: "Internal Server Error", 503: "Service Unavailable"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the server read from a request."""

    input_tokens: int
    output_tokens: int
    chat: bool = False
    usage: bool = False
    continuous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One answer: writes in order, each due some time after the request arrived.

    Attributes:
        due_ns: when each write is due.
        writes: their bytes.
        tokens: tokens in each write.
        ending: what happens to the connection after the last one.
    """

    due_ns: tuple[int, ...]
    writes: tuple[bytes, ...]
    tokens: tuple[int, ...]
    ending: Ending


Write = tuple[float, bytes, int]


@lru_cache(maxsize=256)
def script_of(plan: Plan, asked: Asked) -> Script:
    """Write the script of one answer."""
    total = plan.output_tokens or asked.output_tokens
    ends = [at for at in (plan.abort_at, plan.reset_at, plan.silent_at) if 0 <= at <= total]
    stop = min(ends) if ends else None
    if plan.status != 200:
        writes = [(plan.head_delay_s, _refusal(plan), 0)]
    else:
        writes = list(_writes(plan, asked, total, stop))
    return Script(
        due_ns=tuple(round(due_s * 1e9) for due_s, _, _ in writes),
        writes=tuple(data for _, data, _ in writes),
        tokens=tuple(tokens for _, _, tokens in writes),
        ending=_ending(plan, stop),
    )


def _ending(plan: Plan, stop: int | None) -> Ending:
    if stop is not None:
        if stop == plan.reset_at:
            return "reset"
        return "close" if stop == plan.abort_at else "silent"
    return "keep" if plan.keep_alive and plan.chunked else "close"


def _writes(plan: Plan, asked: Asked, total: int, stop: int | None) -> Iterator[Write]:
    if stop == 0 and stop == plan.silent_at:
        return
    yield plan.head_delay_s, _head(plan, asked), 0
    held: list[Write] = []
    for number, event in enumerate(_events(plan, asked, total)):
        due_s, data, tokens = event
        if stop is not None and tokens and round(_sent_tokens(plan, number, total)) > stop:
            break
        held.append((due_s, _framed(plan, data), tokens))
        if len(held) >= plan.write_events:
            yield from _joined(held)
            held = []
    yield from _joined(held)
    if stop is None:
        tail = b"".join(_framed(plan, data) for data in _tail(plan, asked, total))
        yield _due_s(plan, total), tail + (b"0\r\n\r\n" if plan.chunked else b""), 0


def _joined(held: list[Write]) -> Iterator[Write]:
    if held:
        yield held[-1][0], b"".join(data for _, data, _ in held), sum(n for _, _, n in held)


def _sent_tokens(plan: Plan, number: int, total: int) -> int:
    return min((number + 1) * plan.chunk_tokens, total)


def _due_s(plan: Plan, tokens: int) -> float:
    """Return when the event that completes `tokens` tokens is due."""
    late_s = plan.stall_s if 0 <= plan.stall_at < tokens else 0.0
    return plan.head_delay_s + plan.ttft_s + max(tokens - 1, 0) * plan.itl_s + late_s


def _events(plan: Plan, asked: Asked, total: int) -> Iterator[Write]:
    """Yield every event that carries tokens, or what comes in its place."""
    sent = 0
    while sent < total:
        tokens = min(plan.chunk_tokens, total - sent)
        due_s = _due_s(plan, sent + tokens)
        if sent <= plan.in_band_at < sent + tokens:
            error = {"message": "golden in-band error", "type": "server_error", "code": 500}
            yield due_s, json.dumps({"error": error}).encode(), 0
            sent += tokens
            continue
        sent += tokens
        event = _event(plan, asked, tokens, sent, sent == total)
        yield due_s, plan.garbage.encode() if plan.garbage and sent == tokens else event, tokens


def _event(plan: Plan, asked: Asked, tokens: int, sent: int, last: bool) -> bytes:
    text = " tok" * tokens
    reason = "length" if last and plan.finish else None
    content = {"delta": {"content": text}} if asked.chat else {"text": text}
    choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
    usage = _usage(asked, sent) if _says_usage(plan, asked) == "continuous" else None
    return _chunk(asked, [choice], usage)


def _tail(plan: Plan, asked: Asked, total: int) -> Iterator[bytes]:
    """Yield the events after the last token."""
    if _says_usage(plan, asked) != "none":
        yield _chunk(asked, [], _usage(asked, total + plan.usage_off))
    if plan.done:
        yield b"[DONE]"


def _says_usage(plan: Plan, asked: Asked) -> str:
    if plan.usage != "asked":
        return plan.usage
    return "none" if not asked.usage else "continuous" if asked.continuous else "final"


def _usage(asked: Asked, output_tokens: int) -> dict[str, object]:
    return {
        "prompt_tokens": asked.input_tokens,
        "total_tokens": asked.input_tokens + output_tokens,
        "completion_tokens": output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _chunk(asked: Asked, choices: list[object], usage: dict[str, object] | None) -> bytes:
    kind = "chat.completion.chunk" if asked.chat else "text_completion"
    name = "chatcmpl" if asked.chat else "cmpl"
    return json.dumps(
        {
            "id": f"{name}-0123456789abcdef0123456789abcdef",
            "object": kind,
            "created": 1700000000,
            "model": "golden",
            "choices": choices,
            "usage": usage,
        },
        separators=(",", ":"),
    ).encode()


def _head(plan: Plan, asked: Asked) -> bytes:
    lines = ["HTTP/1.1 200 OK", "content-type: text/event-stream; charset=utf-8"]
    lines += ["transfer-encoding: chunked"] if plan.chunked else []
    lines += [] if plan.keep_alive and plan.chunked else ["connection: close"]
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" if plan.interim else b""
    role = b""
    if asked.chat:
        delta = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        usage = _usage(asked, 0) if _says_usage(plan, asked) == "continuous" else None
        role = _framed(plan, _chunk(asked, [delta], usage))
    return interim + "\r\n".join(lines).encode() + b"\r\n\r\n" + role


def _framed(plan: Plan, data: bytes) -> bytes:
    newline = b"\r\n" if plan.crlf else b"\n"
    comment = b": golden" + newline * 2 if plan.comments else b""
    event = comment + b"data: " + data + newline * 2
    return b"%x\r\n%b\r\n" % (len(event), event) if plan.chunked else event


def _refusal(plan: Plan) -> bytes:
    error = {"message": f"golden {plan.status}", "type": "golden", "code": plan.status}
    body = json.dumps({"error": error}).encode()
    lines = [
        f"HTTP/1.1 {plan.status} {_REASONS.get(plan.status, 'Golden')}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(["location: /elsewhere"] if 300 <= plan.status < 400 else []),
        *([] if plan.keep_alive else ["connection: close"]),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
