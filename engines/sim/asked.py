"""What one completion or chat asks, read from its body, and why an engine would refuse it."""

from __future__ import annotations

import json
import zlib
from array import array
from dataclasses import dataclass
from typing import Any

from engines.sim.setup import Setup
from engines.sim.step import Request
from engines.sim.writing import SchemaError, json_tokens

_LETTERS = "abcdefghijklmnopqrst"
TEXTS = tuple(
    f" {_LETTERS[i // 400 % 20]}{_LETTERS[i // 20 % 20]}{_LETTERS[i % 20]}" for i in range(2000)
)
"""Text of each token id that is generated, all of one length."""


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
        tokens: the text of each token where a JSON schema constrains the output, else empty.
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
    tokens: tuple[str, ...]
    stream: bool
    usage: bool
    running_usage: bool
    token_ids: bool

    def text_at(self, place: int, request: Request) -> str:
        """Return the text of one token of its answer; after the JSON's end only blanks may come."""
        if self.tokens:
            return self.tokens[place] if place < len(self.tokens) else " "
        return TEXTS[request.output_ids(place, 1)[0] % 2000]


def read(setup: Setup, path: str, body: bytes, kv_tokens: int) -> Asked:
    """Return what a request's body asks; the KV capacity bounds what SGLang generates.

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
    limit = _limit(setup, given, len(prompt), kv_tokens, chat=chat)
    fixed = bool(given.get("ignore_eos", False))
    options = given.get("stream_options") or {}
    tokens = _json_tokens(given, zlib.crc32(prompt))
    natural = len(tokens) or natural_tokens(prompt)
    return Asked(
        chat=chat,
        prompt=prompt,
        limit_tokens=limit,
        output_tokens=limit if fixed else min(limit, natural),
        fixed_length=fixed,
        grammar=_grammar(given),
        tokens=tokens,
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


def _limit(
    setup: Setup, given: dict[str, Any], prompt_tokens: int, kv_tokens: int, *, chat: bool
) -> int:
    room = setup.context_tokens - prompt_tokens
    asked = given.get("max_completion_tokens") or given.get("max_tokens")
    limit = int(asked) if asked is not None else (room if chat else 16)
    if limit < 1:
        raise BadRequestError("max_tokens must be at least 1")
    if room < 1 or limit > room:
        raise BadRequestError(_too_long(setup, prompt_tokens, limit))
    if prompt_tokens + 8 > kv_tokens:
        raise BadRequestError(
            f"Input length ({prompt_tokens} tokens) exceeds the maximum allowed length "
            f"({kv_tokens - 8} tokens). Use a shorter input or enable --allow-auto-truncate."
        )
    return min(limit, kv_tokens - 2 - prompt_tokens)


def _too_long(setup: Setup, prompt_tokens: int, limit: int) -> str:
    most = setup.context_tokens
    if setup.engine == "sglang":
        return (
            f"Requested token count exceeds the model's maximum context length of {most} tokens. "
            f"You requested a total of {prompt_tokens + limit} tokens: {prompt_tokens} tokens from "
            f"the input messages and {limit} tokens for the completion."
        )
    return (
        f"This model's maximum context length is {most} tokens. However, you requested {limit} "
        f"output tokens and your prompt contains {prompt_tokens} input tokens, for a total of "
        f"{prompt_tokens + limit} tokens."
    )


def _grammar(given: dict[str, Any]) -> str:
    form = given.get("response_format") or {}
    names = ("structured_outputs", "guided_json", "json_schema", "regex", "ebnf")
    parts = [given[name] for name in names if given.get(name)]
    if isinstance(form, dict) and form.get("type") in ("json_schema", "json_object"):
        parts.append(form)
    return json.dumps(parts, sort_keys=True) if parts else ""


def _json_tokens(given: dict[str, Any], seed: int) -> tuple[str, ...]:
    """Return the answer that a request's JSON schema allows, none where it has no schema."""
    schema = _schema(given)
    if schema is None:
        return ()
    try:
        return json_tokens(schema, seed)
    except SchemaError as error:
        raise BadRequestError(f"The provided JSON schema is not supported: {error}") from error


def _schema(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema that constrains an answer, by any of the names engines know it under."""
    form, outputs = given.get("response_format"), given.get("structured_outputs")
    found: Any = given.get("guided_json") or given.get("json_schema")
    if isinstance(outputs, dict):
        found = outputs.get("json") or found
    if isinstance(form, dict) and form.get("type") == "json_object":
        found = {"type": "object"}
    if isinstance(form, dict) and isinstance(form.get("json_schema"), dict):
        found = form["json_schema"].get("schema")
    try:
        schema = json.loads(found) if isinstance(found, str) else found
    except ValueError as error:
        raise BadRequestError(f"The JSON schema is no JSON: {error}") from error
    return schema if isinstance(schema, dict) else None
