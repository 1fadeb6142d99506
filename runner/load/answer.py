"""What one answer says: tokens of each event, usage, and why it is no success.

Knows the streams of OpenAI's completions and chat completions as vLLM and SGLang write them.
Tokens of a chunk are the growth of its own cumulative usage where the server sends that
(`stream_options.continuous_usage_stats`), else one per chunk with content.
"""

from __future__ import annotations

import bisect
import json
import re
from array import array
from collections.abc import Sequence
from typing import Any, Final

from runner.load.events import Events
from runner.load.http1 import Chunked, Framing, Malformed, framing_of, head_of
from runner.load.said import Said

_DETAIL_LIMIT: Final = 300
_BARREN_LIMIT: Final = 10_000
"""More events without a token than this, and nobody reads the rest."""
_EVENT_END: Final = b"\n\n\r\n"
_PLAIN: Final = re.compile(rb'"finish_reason": ?null.*"usage": ?\{.*"completion_tokens": ?(\d+)')
"""A chunk in the middle of a stream with continuous usage. A quoted name before a colon is a key
wherever it stands: inside a JSON string its quotes would be escaped."""

_CONTENT: Final = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")


class Answer:
    """Reads one answer from its raw reads, in order.

    `fault` is the first reason found why the answer is no success: an outcome and its detail.
    `said` is what it says, where that is kept.
    """

    __slots__ = (
        "_barren",
        "_broken",
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
        "said",
        "status",
    )

    def __init__(self, *, keep: bool = False) -> None:
        self._barren = 0
        self._broken = False
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
        self.said = Said() if keep else None
        self.status: int | None = None

    def read(
        self, data: bytes, ends: Sequence[int], arrived_ns: Sequence[int]
    ) -> list[tuple[int, int]]:
        """Take the next reads.

        Args:
            data: their bytes.
            ends: where in `data` each read ends.
            arrived_ns: when each arrived.

        Returns:
            For every event they complete: in which of them, and how many tokens it carries.
        """
        found: list[tuple[int, int]] = []
        at = 0
        for number, end in enumerate(ends):
            if end <= at:
                continue
            if self._whole_chunks_ahead():
                at = self._leap(data, at, ends, arrived_ns, found)
            if end > at:
                found += [(number, n) for n in self.feed(data[at:end], arrived_ns[number])]
                at = end
        return found

    def feed(self, data: bytes, arrived_ns: int) -> list[int]:
        """Take the next read; return the tokens of every event it completes."""
        self.received_bytes += len(data)
        try:
            payload = b"" if self._broken else self._payload(data)
            if self.status == 200 and payload:
                events = self._events.feed(payload)
                return [self._take(event, arrived_ns) for event in events]
        except Malformed as error:
            self._broken = True
            self._fail("malformed", str(error))
            return []
        if self.status != 200:
            self._head = (self._head + payload)[:_DETAIL_LIMIT]
        return []

    def finished(self) -> bool:
        """Return whether the framing says that the answer is whole."""
        return self._framing is not None and self._framing.finished

    def _whole_chunks_ahead(self) -> bool:
        framing = self._framing
        return (
            isinstance(framing, Chunked)
            and framing.between_chunks()
            and self.status == 200
            and self._events.empty()
            and not self._broken
        )

    def _leap(
        self,
        data: bytes,
        at: int,
        ends: Sequence[int],
        arrived_ns: Sequence[int],
        found: list[tuple[int, int]],
    ) -> int:
        """Read ahead as long as every chunk holds one event of the plain kind, as they mostly do.

        It does what `feed` would, several times faster. Returns how far it came.
        """
        start, number = at, bisect.bisect_right(ends, at)
        for segment in data[at:].split(_EVENT_END)[:-1]:
            line = segment.find(b"\r\n", 0, 12)
            event = segment[line + 8 :]
            if segment[line + 2 : line + 8] != b"data: " or b"\n" in event:
                break
            if self._broken or not _is_size(segment[:line], len(segment) - line):
                break
            at += len(segment) + len(_EVENT_END)
            while ends[number] < at - 2:
                number += 1
            found.append((number, self._take(event, arrived_ns[number])))
        self.received_bytes += at - start
        return at

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

    def _take(self, event: bytes, arrived_ns: int) -> int:
        """Read one event; return how many tokens it carried."""
        plain = _PLAIN.search(event) if self._continuous and self.said is None else None
        if plain is not None and b'"error"' not in event:
            tokens = int(plain[1]) - self.counted_tokens
        else:
            tokens = self._parsed(event)
        if tokens <= 0:
            self._barren += 1
            if self._barren > _BARREN_LIMIT:
                self._broken = True
                self._fail("malformed", f"over {_BARREN_LIMIT} events without a token")
            return 0
        self.chunk_ns.append(arrived_ns)
        self.chunk_tokens.append(tokens)
        self.counted_tokens += tokens
        return tokens

    def _parsed(self, event: bytes) -> int:
        if event.strip() == b"[DONE]":
            self.done = True
            return 0
        try:
            chunk = json.loads(event)
        except ValueError:
            self._fail("malformed", f"not JSON: {event[:200]!r}")
            return 0
        if not isinstance(chunk, dict):
            self._fail("malformed", f"not an object: {event[:200]!r}")
            return 0
        if chunk.get("error") or chunk.get("object") == "error":
            self._fail("in_band", str(chunk.get("error") or chunk.get("message")))
            return 0
        return self._tokens(chunk)

    def _tokens(self, chunk: dict[str, Any]) -> int:
        usage = chunk.get("usage")
        total = self._usage(usage) if isinstance(usage, dict) else None
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return 0
        choice = choices[0] if isinstance(choices[0], dict) else {}
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        if self.said is not None:
            self.said.take(choice)
        content = _has_content(choice)
        if self._continuous is None and (content or total is not None):
            # a role chunk may come without usage even where all others have it
            self._continuous = total is not None
        if self._continuous and total is not None:
            return total - self.counted_tokens
        return 1 if content else 0

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


def _is_size(digits: bytes, size_bytes: int) -> bool:
    try:
        return int(digits, 16) == size_bytes
    except ValueError:
        return False


def _has_content(choice: dict[str, Any]) -> bool:
    if choice.get("text"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(delta.get(name) for name in _CONTENT)
