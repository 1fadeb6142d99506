"""What one answer says, kept for workloads whose result it is; never in the measured thread."""

from __future__ import annotations

from array import array
from typing import Any, Final

LIMIT_BYTES: Final = 64 << 10
LIMIT_TOKENS: Final = 16 << 10


class Said:
    """The text and the token ids of one answer, chunk by chunk.

    An answer over 64 KiB of text, or over 16 Ki tokens, is not kept at all: half an answer would
    be judged as a wrong one.
    """

    __slots__ = ("_ids", "_size_bytes", "_texts")

    def __init__(self) -> None:
        self._ids = array("I")
        self._size_bytes = 0
        self._texts: list[str] = []

    def take(self, choice: dict[str, Any]) -> None:
        """Take one chunk of the stream, as its choice says it."""
        delta = choice.get("delta")
        text = choice.get("text") or (delta.get("content") if isinstance(delta, dict) else None)
        ids = choice.get("token_ids")
        if isinstance(text, str) and not self._is_over():
            self._texts.append(text)
            self._size_bytes += len(text.encode("utf-8", "replace"))
        if isinstance(ids, list) and not self._is_over():
            self._ids.extend(token for token in ids if type(token) is int and token >= 0)

    @property
    def text(self) -> str | None:
        """Return the whole text; None where it is too long to be kept."""
        if self._is_over():
            return None
        # JSON may spell half a surrogate pair, which no file takes
        paired = "".join(self._texts).encode("utf-16", "surrogatepass")
        return paired.decode("utf-16", "replace")

    @property
    def ids(self) -> tuple[int, ...] | None:
        """Return the token ids; None where the stream has none, or they are too many."""
        return tuple(self._ids) if self._ids and not self._is_over() else None

    def _is_over(self) -> bool:
        return self._size_bytes > LIMIT_BYTES or len(self._ids) > LIMIT_TOKENS
