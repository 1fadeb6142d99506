"""Completions and chats: what a client asked, and the bytes of its answer.

A stream's bytes are prepared once: of each token only its text (and counts, where asked) differ.
"""

from __future__ import annotations

import json
import time
import uuid
import zlib
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from engines.sim.setup import Setup
from engines.sim.step import Request
from engines.sim.wire import Connection, event

_LETTERS = "abcdefghijklmnopqrst"
TEXTS = tuple(
    f" {_LETTERS[i // 400 % 20]}{_LETTERS[i // 20 % 20]}{_LETTERS[i % 20]}" for i in range(2000)
)
"""Text of each token id that is generated, all of one length."""
TEXT_BYTES = tuple(text.encode() for text in TEXTS)
DONE = event(b"[DONE]")


class BadRequestError(Exception):
    """The engine refuses a request: message and HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one completion or chat asks.

    Attributes:
        chat: it is a chat.
        prompt: token ids.
        limit_tokens: most tokens to generate.
        output_tokens: tokens that will be generated.
        fixed_length: the end-of-sequence token is ignored.
        grammar: what constrains the output, empty for nothing.
        stream: answer by server-sent events.
        usage: end a stream with its usage.
        running_usage: state the usage in every chunk.
        token_ids: state the token ids in every chunk.
    """

    chat: bool
    prompt: array[int]
    limit_tokens: int
    output_tokens: int
    fixed_length: bool
    grammar: str
    stream: bool
    usage: bool
    running_usage: bool
    token_ids: bool


def read(setup: Setup, path: str, body: bytes) -> Asked:
    """Return what a request's body asks.

    Raises:
        BadRequestError: it is no such request, names another model or does not fit the context.
    """
    try:
        given = json.loads(body)
    except ValueError as error:
        raise BadRequestError(f"invalid JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadRequestError("the body must be a JSON object")
    model = given.get("model", setup.name)
    if model != setup.name:
        raise BadRequestError(f"The model `{model}` does not exist.", 404)
    chat = path.endswith("/chat/completions")
    prompt = _chat_ids(given) if chat else _prompt_ids(given.get("prompt"))
    limit = _limit(setup, given, len(prompt), chat)
    fixed = bool(given.get("ignore_eos", False))
    options = given.get("stream_options") or {}
    return Asked(
        chat=chat,
        prompt=prompt,
        limit_tokens=limit,
        output_tokens=limit if fixed else min(limit, natural_tokens(prompt)),
        fixed_length=fixed,
        grammar=_grammar(given),
        stream=bool(given.get("stream", False)),
        usage=bool(options.get("include_usage", False)),
        running_usage=bool(options.get("continuous_usage_stats", False)),
        token_ids=bool(given.get("return_token_ids", False)),
    )


def natural_tokens(prompt: array[int]) -> int:
    """Return where a prompt's answer ends by itself: 48 to 99 tokens, always the same."""
    return 48 + zlib.crc32(prompt) % 52


def _prompt_ids(prompt: Any) -> array[int]:
    if isinstance(prompt, str):
        return text_ids(prompt)
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return array("I", prompt)
    if isinstance(prompt, list) and len(prompt) == 1:
        return _prompt_ids(prompt[0])
    raise BadRequestError("prompt must be a string or a list of token ids")


def _chat_ids(given: dict[str, Any]) -> array[int]:
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequestError("messages must be a list")
    return text_ids("".join(f"<{m.get('role')}>{m.get('content')}" for m in messages) + "<answer>")


def text_ids(text: str) -> array[int]:
    """Return token ids of a text, four characters each; equal beginnings give equal ids."""
    pieces = (text[place : place + 4] for place in range(0, len(text), 4))
    return array("I", [100 + zlib.crc32(piece.encode()) % 1900 for piece in pieces] or [100])


def _limit(setup: Setup, given: dict[str, Any], prompt_tokens: int, chat: bool) -> int:
    room = setup.context_tokens - prompt_tokens
    asked = given.get("max_completion_tokens") or given.get("max_tokens")
    limit = asked if asked is not None else (room if chat else 16)
    if room < 1 or limit > room:
        raise BadRequestError(
            f"This model's maximum context length is {setup.context_tokens} tokens. However, you "
            f"requested {limit} output tokens and your prompt contains {prompt_tokens} input "
            "tokens. Please reduce the length of the input prompt or the number of requested "
            "output tokens."
        )
    if limit < 1:
        raise BadRequestError("max_tokens must be at least 1")
    return int(limit)


def _grammar(given: dict[str, Any]) -> str:
    form = given.get("response_format") or {}
    names = ("structured_outputs", "guided_json", "json_schema", "regex", "ebnf")
    parts = [given[name] for name in names if given.get(name)]
    if isinstance(form, dict) and form.get("type") in ("json_schema", "json_object"):
        parts.append(form)
    return json.dumps(parts, sort_keys=True) if parts else ""


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
        self.arrived_s = 0.0
        kind = "chatcmpl" if asked.chat else "cmpl"
        self.id = f"{kind}-{uuid.uuid4().hex}"
        self._before, self._after, self._last = self._template()
        self._plain = not (asked.running_usage or asked.token_ids)
        size = len(self._before) + len(TEXT_BYTES[0]) + len(self._after)
        self._open = b"%x\r\ndata: " % (size + 8) + self._before
        self._close = self._after + b"\n\n\r\n"

    def token(self, request: Request) -> None:
        """Send the latest token."""
        if not self.asked.stream:
            return
        if not self.opened:
            self._begin()
        place = request.generated - 1
        text = TEXT_BYTES[(100 + (request.seed + 7919 * place) % 1900) % 2000]
        if request.generated >= request.output_tokens:
            self.connection.write(event(self._chunk(request, text, self._last)))
        elif self._plain:
            self.connection.write(self._open + text + self._close)
        else:
            self.connection.write(event(self._chunk(request, text, self._after)))

    def end(self, request: Request) -> None:
        """Send what follows the last token."""
        if self.asked.stream:
            usage = self._usage_event(request) if self.asked.usage else b""
            self.connection.write(usage + DONE)
            self.connection.close_stream()
        else:
            self.connection.reply(json.dumps(self._whole(request)).encode())

    def fail(self, error: bytes) -> None:
        """End with an error: in the stream where one is open."""
        if self.asked.stream:
            if not self.opened:
                self.connection.open_stream()
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
        text = "".join(TEXTS[token % 2000] for token in ids)
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


def send_tokens(requests: Iterable[Request]) -> None:
    """Send each request's latest token."""
    for request in requests:
        request.owner.token(request)


def now() -> int:
    """Return the seconds since the epoch that answers carry."""
    return int(time.time())


Clock = Callable[[], float]
