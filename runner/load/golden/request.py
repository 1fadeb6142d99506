"""What the golden server reads from a request, and its other pages. Pure."""

from __future__ import annotations

import json
from typing import Final

from runner.load.golden.script import Asked

_PAGES: Final = {
    "/health": "{}",
    "/v1/models": json.dumps({"object": "list", "data": [{"id": "golden", "object": "model"}]}),
    "/get_model_info": json.dumps({"model_path": "golden"}),
    "/get_server_info": json.dumps({"model_path": "golden"}),
}


def read_body(body: bytes, *, chat: bool) -> tuple[Asked, dict[str, object], int | None]:
    """Return what a request asks, its own changes to the plan (`golden`) and its own number.

    A prompt of token ids is counted, not parsed: parsing long ones would hold up the others.
    """
    count = 0
    start = body.find(b'"prompt"')
    opening = body.find(b"[", start) if start >= 0 else -1
    if opening >= 0 and not body[start + 8 : opening].strip(b": "):
        closing = body.find(b"]", opening)
        count = body.count(b",", opening, closing) + (closing > opening + 1)
        body = body[: opening + 1] + body[closing:]
    asked = json.loads(body)
    options = asked.get("stream_options") or {}
    if chat:
        count = sum(len(str(message.get("content")).split()) for message in asked["messages"])
    elif not count:
        count = len(str(asked.get("prompt")).split())
    limit = asked.get("max_completion_tokens") or asked.get("max_tokens") or 16
    return (
        Asked(
            input_tokens=count,
            output_tokens=limit,
            chat=chat,
            usage=bool(options.get("include_usage")),
            continuous=bool(options.get("continuous_usage_stats")),
        ),
        asked.get("golden") or {},
        asked.get("golden_request"),
    )


def length_bytes(head: bytes) -> int:
    """Return the Content-Length of a request, 0 where it has none."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def page(path: str) -> bytes:
    """Return the answer to any request but a completion."""
    body = _PAGES.get(path.partition("?")[0])
    status = "200 OK" if body else "404 Not Found"
    body = body or "{}"
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n{body}"
    ).encode()
