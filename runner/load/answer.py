"""What one answer says: tokens of each event, usage, and why it is no success.

Knows the streams of OpenAI's completions and chat completions as vLLM and SGLang write them.
Tokens of a chunk are the growth of its own cumulative usage where the server sends that
(`stream_options.continuous_usage_stats`), else one per chunk with content.
"""

from __future__ import annotations

import json
from array import array
from typing import Any

from runner.load.events import Events
from runner.load.http1 import Framing, Malformed, framing_of, head_of

_DETAIL_LIMIT = 300
_CONTENT = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")


class Answer:
    """Reads one answer from its raw reads, in order.

    `fault` is the first reason found why the answer is no success: an outcome and its detail.
    """

    __slots__ = (
        "_continuous",
        "_events",
        "_framing",
        "_head",
        "cached_tokens",
        "chunk_ns",
        "chunk_tokens",
        "counted_tokens",
        "done",
        "fault",
        "finish_reason",
        "input_tokens",
        "output_tokens",
        "received_bytes",
        "status",
    )

    def __init__(self) -> None:
        self._continuous: bool | None = None
        self._events = Events()
        self._framing: Framing | None = None
        self._head = b""
        self.cached_tokens: int | None = None
        self.chunk_ns = array("q")
        self.chunk_tokens = array("I")
        self.counted_tokens = 0
        self.done = False
        self.fault: tuple[str, str] | None = None
        self.finish_reason: str | None = None
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.received_bytes = 0
        self.status: int | None = None

    def feed(self, data: bytes, arrived_ns: int) -> tuple[int, bool]:
        """Take the next read.

        Returns:
            How many chunks that carry tokens it completed, and whether the last of them was also
            the last event completed: only then does the read's stamp belong to it.
        """
        self.received_bytes += len(data)
        try:
            payload = self._payload(data)
        except Malformed as error:
            self._fail("malformed", str(error))
            return 0, False
        if not payload:
            return 0, False
        if self.status != 200:
            self._head = (self._head + payload)[:_DETAIL_LIMIT]
            return 0, False
        before, last = len(self.chunk_ns), False
        for event in self._events.feed(payload):
            last = self._take(event, arrived_ns)
        return len(self.chunk_ns) - before, last

    def _payload(self, data: bytes) -> bytes:
        if self._framing is not None:
            return self._framing.feed(data)
        self._head += data
        head = head_of(self._head)
        if head is None:
            return b""
        self._head = b""
        self.status = head.status
        self._framing = framing_of(head)
        if head.status != 200:
            where = head.headers.get("location")
            self._head = f"redirects are not followed: {where}; ".encode() if where else b""
        return self._framing.feed(head.rest) if head.rest else b""

    def _take(self, event: bytes, arrived_ns: int) -> bool:
        """Read one event; return whether it carried tokens."""
        if event.strip() == b"[DONE]":
            self.done = True
            return False
        try:
            chunk = json.loads(event)
        except ValueError:
            self._fail("malformed", f"not JSON: {event[:200]!r}")
            return False
        if not isinstance(chunk, dict):
            self._fail("malformed", f"not an object: {event[:200]!r}")
            return False
        if chunk.get("error") or chunk.get("object") == "error":
            self._fail("in_band", str(chunk.get("error") or chunk.get("message")))
            return False
        tokens = self._tokens(chunk)
        if tokens > 0:
            self.chunk_ns.append(arrived_ns)
            self.chunk_tokens.append(tokens)
            self.counted_tokens += tokens
        return tokens > 0

    def _tokens(self, chunk: dict[str, Any]) -> int:
        usage = chunk.get("usage")
        total = self._usage(usage) if isinstance(usage, dict) else None
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return 0
        choice = choices[0] if isinstance(choices[0], dict) else {}
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if self._continuous is None:
            self._continuous = total is not None
        if self._continuous and total is not None:
            return total - self.counted_tokens
        return 1 if _has_content(choice) else 0

    def _usage(self, usage: dict[str, Any]) -> int | None:
        self.input_tokens = _count(usage.get("prompt_tokens"), self.input_tokens)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            self.cached_tokens = _count(details.get("cached_tokens"), self.cached_tokens)
        total = _count(usage.get("completion_tokens"), None)
        if total is not None:
            self.output_tokens = total
        return total

    def _fail(self, outcome: str, detail: str) -> None:
        if self.fault is None:
            self.fault = (outcome, detail[:_DETAIL_LIMIT])

    def verdict(self, ended: str, asked_tokens: int | None) -> tuple[str, str]:
        """Return outcome and detail of a request whose connection ended as `ended` says.

        Args:
            ended: `complete`, `closed` (by the server), or an outcome of `Timeline` with its
                detail after a colon.
            asked_tokens: output tokens asked, None where the server decides.
        """
        outcome, _, detail = ended.partition(":")
        if self.fault is not None:
            return self.fault
        if self.status not in (None, 200) and outcome in ("complete", "closed"):
            said = self._head.decode("utf-8", "replace")
            return "status", f"{self.status}: {said}"[:_DETAIL_LIMIT]
        if outcome not in ("complete", "closed"):
            return outcome, detail[:_DETAIL_LIMIT]
        if not self.received_bytes:
            return "reset", "closed before any answer"
        return self._success(asked_tokens)

    def _success(self, asked_tokens: int | None) -> tuple[str, str]:
        missing = self._missing()
        if missing:
            return "truncated", f"{missing} after {self.counted_tokens} tokens"
        if self.output_tokens is None:
            return "no_usage", f"no usage; {len(self.chunk_ns)} chunks carried tokens"
        if asked_tokens is not None and self.output_tokens != asked_tokens:
            return "wrong_length", f"{self.output_tokens} tokens of {asked_tokens} asked"
        return "ok", ""

    def _missing(self) -> str | None:
        framing = self._framing
        if framing is None or (framing.reusable and not framing.finished):
            return "the answer broke off"
        if not self.done:
            return "no [DONE]"
        return None if self.finish_reason else "no finish reason"


def _count(value: object, otherwise: int | None) -> int | None:
    return value if isinstance(value, int) and value >= 0 else otherwise


def _has_content(choice: dict[str, Any]) -> bool:
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(delta.get(name) for name in _CONTENT)
