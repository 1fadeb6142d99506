"""Logs of requests that were served elsewhere: read from files, as records. No randomness here.

`runner.traces.files` reads rows of a file, `runner.traces.columns` makes records of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One request of a log; what the log does not say is None or empty.

    Attributes:
        at_s: when it came, counted from anything; None where the log has no times.
        input_tokens: length of its prompt.
        output_tokens: length of its answer.
        token_ids: the prompt itself.
        messages: the prompt as a chat, each message with `role` and `content`.
        answer: text of the answer.
        hash_ids: ids of the prompt's blocks: equal ids are equal text.
        group: the session or conversation it belongs to.
    """

    at_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    token_ids: tuple[int, ...] = ()
    messages: tuple[Mapping[str, str], ...] = ()
    answer: str = ""
    hash_ids: tuple[int, ...] = ()
    group: str = ""
