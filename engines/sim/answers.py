"""The answer to one completion or chat, as bytes on a connection.

A stream's bytes are prepared once: of each token only its text (and counts, where asked) differ.
"""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from engines.sim.asked import TEXTS, Asked
from engines.sim.setup import Setup
from engines.sim.step import Request
from engines.sim.wire import Connection, event

TEXT_BYTES = tuple(text.encode() for text in TEXTS)
DONE = event(b"[DONE]")
_COUNTS = b',"usage":{"prompt_tokens":%d,"total_tokens":%%d,"completion_tokens":%%d}}\n\n\r\n'
"""The end of an event that states the usage so far, but for what grows."""


class Answer:
    """One answer on its way: `token` for each token, then `end`.

    Args:
        setup: what is served.
        asked: what was asked.
        connection: where it goes.
        created: seconds since the epoch, as clients see it.
    """

    def __init__(self, setup: Setup, asked: Asked, connection: Connection, created: int) -> None:
        self.asked = asked
        self.connection = connection
        self.setup = setup
        self.created = created
        self.opened = False
        kind = "chatcmpl" if asked.chat else "cmpl"
        self.id = f"{kind}-{uuid.uuid4().hex}"
        self._before, self._after, self._last = self._template()
        self._plain = not (asked.running_usage or asked.token_ids or asked.tokens)
        self._counts = asked.running_usage and not (asked.token_ids or asked.tokens)
        size = len(self._before) + len(TEXT_BYTES[0]) + len(self._after)
        self._open = b"%x\r\ndata: " % (size + 8) + self._before
        self._close = self._after + b"\n\n\r\n"
        self._counted = self._after[:-1].replace(b"%", b"%%") + _COUNTS % len(asked.prompt)

    def token(self, request: Request) -> None:
        """Send the latest token."""
        if not self.asked.stream:
            return
        if not self.opened:
            self._begin()
        place = request.generated - 1
        if self.asked.tokens:
            text = json.dumps(self.asked.text_at(place, request))[1:-1].encode()
        else:
            text = TEXT_BYTES[(100 + (request.seed + 7919 * place) % 1900) % 2000]
        if request.generated >= request.output_tokens:
            self.connection.write(event(self._chunk(request, text, self._last)))
        elif self._plain:
            self.connection.write(self._open + text + self._close)
        elif self._counts:
            count, before = request.generated, self._before
            after = self._counted % (request.prompt_tokens + count, count)
            size = len(before) + len(text) + len(after) + 4  # with `data: `, without the last CRLF
            self.connection.write(b"%x\r\ndata: %b%b%b" % (size, before, text, after))
        else:
            self.connection.write(event(self._chunk(request, text, self._after)))

    def end(self, request: Request) -> None:
        """Send what follows the last token."""
        if self.asked.stream:
            if not self.opened:
                self._begin()
            usage = self._usage_event(request) if self.asked.usage else b""
            self.connection.write(usage + DONE)
            self.connection.close_stream()
        else:
            self.connection.reply(json.dumps(self._whole(request)).encode())

    def fail(self, error: bytes) -> None:
        """End with an error: in the stream where one is open."""
        if self.asked.stream:
            if not self.opened:
                self._begin()
            self.connection.write(event(error) + DONE)
            self.connection.close_stream()
        else:
            self.connection.reply(error, 500)

    def _begin(self) -> None:
        self.opened = True
        self.connection.open_stream()
        if self.asked.chat:
            delta = {"role": "assistant", "content": ""}
            head = self._head([{"index": 0, "delta": delta, "finish_reason": None}])
            self.connection.write(event(json.dumps(head).encode()))

    def _head(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self.asked.chat else "text_completion"
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.setup.name,
            "choices": choices,
        }

    def _template(self) -> tuple[bytes, bytes, bytes]:
        """Return what stands before a token's text, after it, and after the last one's."""
        parts = []
        for reason in (None, self._reason()):
            choice: dict[str, Any] = {"index": 0}
            if self.asked.chat:
                choice["delta"] = {"content": "\0"}
            else:
                choice["text"] = "\0"
            choice |= {"logprobs": None, "finish_reason": reason, self._stop_name(): None}
            text = json.dumps(self._head([choice]), separators=(",", ":"))
            parts.append(text.encode().split(b"\\u0000"))
        return parts[0][0], parts[0][1], parts[1][1]

    def _reason(self) -> str:
        return "length" if self.asked.output_tokens >= self.asked.limit_tokens else "stop"

    def _stop_name(self) -> str:
        return "stop_reason" if self.setup.engine == "vllm" else "matched_stop"

    def _chunk(self, request: Request, text: bytes, after: bytes) -> bytes:
        body = self._before + text + after
        if self.asked.token_ids:
            ids = request.output_ids(request.generated - 1, 1)
            body = body[:-3] + b',"token_ids":%b}]}' % json.dumps(ids).encode()
        if self.asked.running_usage:
            total = request.prompt_tokens + request.generated
            body = body[:-1] + (
                b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}'
                % (request.prompt_tokens, total, request.generated)
            )
        return body

    def _usage(self, request: Request) -> dict[str, Any]:
        usage: dict[str, Any] = {
            "prompt_tokens": request.prompt_tokens,
            "total_tokens": request.prompt_tokens + request.generated,
            "completion_tokens": request.generated,
        }
        if self.setup.cached_details:
            usage["prompt_tokens_details"] = {"cached_tokens": request.cached or 0}
        return usage

    def _usage_event(self, request: Request) -> bytes:
        return event(json.dumps({**self._head([]), "usage": self._usage(request)}).encode())

    def _whole(self, request: Request) -> dict[str, Any]:
        ids = request.output_ids(0, request.generated)
        text = "".join(self.asked.text_at(place, request) for place in range(request.generated))
        choice: dict[str, Any] = {"index": 0, "finish_reason": self._reason(), "logprobs": None}
        if self.asked.chat:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        if self.asked.token_ids:
            choice["token_ids"] = ids
        head = {**self._head([choice]), "usage": self._usage(request)}
        head["object"] = "chat.completion" if self.asked.chat else "text_completion"
        return head


def now() -> int:
    """Return the seconds since the epoch that answers carry."""
    return int(time.time())
