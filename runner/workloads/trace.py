"""A log replayed: its order, lengths, prefix structure and times; see `runner.traces`.

With `speed = [1.0, 2.0]` an open-loop load at the log's own times, each so many times as fast;
otherwise the level decides, by concurrency or rate, and only the order is kept.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from engines import Chat
from runner.errors import ExperimentError
from runner.traces import Record
from runner.traces.blocks import Blocks
from runner.traces.columns import records_of
from runner.workloads import Prompt, Spec, Vocabulary, Workload
from runner.workloads.lengths import Length, drawn


class Trace(Spec):
    """Which log, and how it is replayed.

    Attributes:
        file: `.jsonl`, `.json`, `.csv` or `.parquet`; a path from where the runner is started.
        format: what its columns mean; told from them when not given.
        times: `own` keeps the log's arrival times, `level` leaves arrivals to the load's level; the
            level says which.
        prompts: `tokens` sends random token ids of the log's lengths (or its own token ids),
            `text` sends its texts as chats.
        output_tokens: answer length where the log has none.
        chars_per_token: turns a log's texts into lengths where it has no token counts; say what
            the model's tokenizer makes of such text.
        block_tokens: tokens of a block that a hash id stands for.
        skip: records left out at the beginning.
        longest_tokens: records whose prompt or answer is longer are left out.
    """

    file: str
    format: Literal["azure", "burstgpt", "mooncake", "sharegpt", "own"] | None = None
    times: Literal["own", "level"]
    prompts: Literal["tokens", "text"] = "tokens"
    output_tokens: Length | None = None
    chars_per_token: PositiveFloat | None = None
    block_tokens: PositiveInt = 512
    skip: NonNegativeInt = 0
    longest_tokens: PositiveInt | None = None

    @field_validator("file")
    @classmethod
    def _is_there(cls, file: str) -> str:
        if not Path(file).expanduser().is_file():
            raise ValueError(f"there is no file {file}; the path counts from where runner starts")
        return file


def prompts(spec: Trace, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield the log's requests, in the order of their times where these are kept; then end.

    Raises:
        ExperimentError: the log cannot be read, or lacks what the keys ask of it.
    """
    records = _records(spec)
    blocks = Blocks(spec.block_tokens, rng.getrandbits(64), vocabulary.ids)
    start_s: float | None = None
    for number, record in enumerate(records, start=1):
        try:
            prompt = _prompt(spec, record, rng, vocabulary, blocks)
        except ValueError as error:
            where = f"{spec.file}: record {number} of those replayed"
            raise ExperimentError(f"{where}: {error}") from error
        if prompt is None:
            continue
        if spec.times == "own" and record.at_s is not None:
            start_s = record.at_s if start_s is None else start_s
            prompt = replace(prompt, due_s=record.at_s - start_s)
        yield prompt


def _records(spec: Trace) -> Iterator[Record]:
    records = records_of(Path(spec.file).expanduser(), spec.format)
    records = itertools.islice(records, spec.skip, None)
    if spec.times == "level":
        return records
    timed = list(records)
    if any(record.at_s is None for record in timed):
        raise ExperimentError(
            f"{spec.file}: it has requests without a time; give rate_per_s, not speed"
        )
    return iter(sorted(timed, key=lambda record: record.at_s or 0.0))


def _prompt(
    spec: Trace, record: Record, rng: random.Random, vocabulary: Vocabulary, blocks: Blocks
) -> Prompt | None:
    """Return a record's request; None where it is too long to be replayed."""
    output_tokens = _output_tokens(spec, record, rng)
    if spec.prompts == "text":
        return _chat(record, output_tokens)
    length = len(record.token_ids) or record.input_tokens or _tokens_of(spec, _text(record))
    if spec.longest_tokens is not None and max(length, output_tokens) > spec.longest_tokens:
        return None
    token_ids, seen_tokens = _tokens(record, length, rng, vocabulary, blocks)
    return Prompt(
        token_ids=token_ids,
        output_tokens=output_tokens,
        group=record.group,
        expected_hit_tokens=seen_tokens,
    )


def _chat(record: Record, output_tokens: int) -> Prompt:
    if not record.messages:
        raise ValueError('it has no text; write prompts = "tokens"')
    return Prompt(
        chat=Chat(messages=record.messages, exact=True),
        output_tokens=output_tokens,
        group=record.group,
        expected_hit_tokens=None,
    )


def _tokens(
    record: Record, length: int, rng: random.Random, vocabulary: Vocabulary, blocks: Blocks
) -> tuple[Sequence[int], int | None]:
    """Return the prompt, and how many of its tokens an earlier one had; None where unknown."""
    if record.token_ids:
        return record.token_ids, None
    if record.hash_ids:
        token_ids = blocks.tokens(record.hash_ids, length)
        return token_ids, blocks.seen_tokens(record.hash_ids, length)
    return vocabulary.ids(rng, length), 0


def _output_tokens(spec: Trace, record: Record, rng: random.Random) -> int:
    if record.output_tokens is not None:
        return record.output_tokens
    if spec.output_tokens is not None:
        return drawn(spec.output_tokens, rng)
    if record.answer and spec.chars_per_token is not None:
        return _tokens_of(spec, record.answer)
    raise ValueError("the log does not say how long answers are; set output_tokens")


def _text(record: Record) -> str:
    return " ".join(message["content"] for message in record.messages)


def _tokens_of(spec: Trace, text: str) -> int:
    if spec.chars_per_token is None or not text:
        raise ValueError(
            "the log has no token counts; set chars_per_token, or send its texts by"
            ' prompts = "text"'
        )
    return math.ceil(len(text) / spec.chars_per_token)


def _chats(spec: Trace) -> bool:
    return spec.prompts == "text"


def contents(spec: Trace) -> dict[str, str]:
    """Return the SHA-256 of the log, by its name as written."""
    with Path(spec.file).expanduser().open("rb") as file:
        return {spec.file: hashlib.file_digest(file, "sha256").hexdigest()}


WORKLOAD = Workload(
    name="trace",
    spec=Trace,
    prompts=prompts,
    chats=_chats,
    contents=contents,
    times="either",
    ends=True,
)
