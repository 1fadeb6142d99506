"""Timelines on disk: one file per worker, appended as requests end, read back one at a time."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from runner.load import Timeline

_HEAD: Final = struct.Struct("<I?qqqiiiIHHHB?ii")
_STAMPS: Final = ("user", "kernel")
_OUTCOMES: Final = (
    "ok", "refused", "reset", "timeout", "status", "in_band", "truncated", "wrong_length",
    "no_usage", "cancelled", "malformed",
)  # fmt: skip


def write(
    file: BinaryIO, timeline: Timeline, chunk_ns: array[int], chunk_tokens: array[int]
) -> None:
    """Append one timeline, its chunks given as arrays of 64-bit and 32-bit numbers."""
    texts = [text.encode() for text in (timeline.group, timeline.role, timeline.detail)]
    answer = (timeline.answer or "").encode()
    ids = array("I", timeline.answer_ids or ())
    counts = (timeline.input_tokens, timeline.output_tokens, timeline.cached_tokens)
    file.write(
        _HEAD.pack(
            timeline.request,
            timeline.warmup,
            -1 if timeline.intended_ns is None else timeline.intended_ns,
            timeline.sent_ns,
            timeline.ended_ns,
            *(-1 if count is None else count for count in counts),
            len(chunk_ns),
            *map(len, texts),
            _OUTCOMES.index(timeline.outcome),
            timeline.stamp == "kernel",
            -1 if timeline.answer is None else len(answer),
            -1 if timeline.answer_ids is None else len(ids),
        )
    )
    file.writelines((*texts, chunk_ns.tobytes(), chunk_tokens.tobytes(), answer, ids.tobytes()))


def read(path: Path) -> Iterator[Timeline]:
    """Yield the timelines of a shard, in the order in which the requests ended.

    A shard whose writer was killed ends with the last whole timeline.
    """
    if not path.exists():
        return
    size = path.stat().st_size
    with path.open("rb") as file:
        while len(head := file.read(_HEAD.size)) == _HEAD.size:
            fields = _HEAD.unpack(head)
            answer_bytes, answer_ids = (max(count, 0) for count in fields[14:16])
            body_bytes = 12 * fields[8] + sum(fields[9:12]) + answer_bytes + 4 * answer_ids
            if file.tell() + body_bytes > size:
                return
            yield _timeline(fields, file)


def _timeline(fields: tuple[int, ...], file: BinaryIO) -> Timeline:
    number, warmup, intended, sent, ended, inputs, outputs, cached, chunks = fields[:9]
    group, role, detail = (file.read(size).decode() for size in fields[9:12])
    chunk_ns = tuple(array("q", file.read(8 * chunks)))
    return Timeline(
        request=number,
        group=group,
        role=role,
        warmup=bool(warmup),
        intended_ns=None if intended < 0 else intended,
        sent_ns=sent,
        first_ns=chunk_ns[0] if chunk_ns else None,
        last_ns=chunk_ns[-1] if chunk_ns else None,
        ended_ns=ended,
        chunk_ns=chunk_ns,
        chunk_tokens=tuple(array("I", file.read(4 * chunks))),
        stamp=_STAMPS[fields[13]],
        input_tokens=None if inputs < 0 else inputs,
        output_tokens=None if outputs < 0 else outputs,
        cached_tokens=None if cached < 0 else cached,
        outcome=_OUTCOMES[fields[12]],
        detail=detail,
        answer=None if fields[14] < 0 else file.read(fields[14]).decode(),
        answer_ids=None if fields[15] < 0 else tuple(array("I", file.read(4 * fields[15]))),
    )
