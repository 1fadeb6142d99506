"""From a log's rows to records: which columns say what, in the public logs and in the user's own.

Azure (Azure/AzurePublicDataset, LLM inference 2023 and 2024): TIMESTAMP as date and time,
ContextTokens, GeneratedTokens. BurstGPT (HPMLL/BurstGPT): Timestamp in seconds, Request tokens,
Response tokens, sometimes Session ID. Mooncake (kvcache-ai/Mooncake): timestamp in milliseconds,
input_length, output_length, hash_ids of blocks of 512 tokens. ShareGPT: conversations, each a list
of turns with `from` and `value`. The user's own: at_s, input_tokens, output_tokens, and any of
token_ids, prompt, messages, hash_ids, group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from runner.errors import ExperimentError
from runner.traces import Record
from runner.traces.files import Row, rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to write a log.

    Attributes:
        name: the word in TOML.
        needs: columns that tell it from the others; each entry lists names, any of which will do.
        record: makes a record of a row; ValueError, KeyError or TypeError where the row is not
            what it should be.
    """

    name: str
    needs: tuple[tuple[str, ...], ...]
    record: Callable[[Row], Record]

    def fits(self, columns: Iterable[str]) -> bool:
        """Tell whether a file with these columns may be of this format."""
        there = set(columns)
        return all(there.intersection(names) for names in self.needs)


def records_of(path: Path, name: str | None = None) -> Iterator[Record]:
    """Yield the records of a log in its own order.

    Requests without a prompt or without an answer (BurstGPT notes failed ones so) are left out.

    Args:
        path: the file.
        name: its format; told from its columns when None.

    Raises:
        ExperimentError: no format is known by its columns, or a row is not what it should be.
    """
    rows = rows_of(path)
    first = next(rows, None)
    if first is None:
        raise ExperimentError(f"{path}: the log is empty")
    known = _format(path, first, name)
    for number, row in enumerate(chain([first], rows), start=1):
        try:
            record = known.record(row)
        except (ValueError, KeyError, TypeError) as error:
            said = f"missing {error}" if isinstance(error, KeyError) else str(error)
            where = f"{path}: record {number}"
            raise ExperimentError(f"{where}: it is no {known.name} record: {said}") from error
        if record.input_tokens != 0 and record.output_tokens != 0:
            yield record


def _format(path: Path, row: Row, name: str | None) -> Format:
    fitting = [known for known in FORMATS if known.fits(row) and name in (None, known.name)]
    if fitting:
        return fitting[0]
    forms = "; ".join(
        f"{known.name} needs {', '.join(' or '.join(names) for names in known.needs)}"
        for known in FORMATS
        if name in (None, known.name)
    )
    raise ExperimentError(f"{path}: its columns are {', '.join(row)}; {forms}")


def _azure(row: Row) -> Record:
    return Record(
        at_s=_clock_s(row["TIMESTAMP"]),
        input_tokens=_count(row["ContextTokens"]),
        output_tokens=_count(row["GeneratedTokens"]),
    )


def _burstgpt(row: Row) -> Record:
    session = row.get("Session ID")
    return Record(
        at_s=float(row["Timestamp"]),
        input_tokens=_count(row["Request tokens"]),
        output_tokens=_count(row["Response tokens"]),
        group=f"session-{session}" if session not in (None, "") else "",
    )


def _mooncake(row: Row) -> Record:
    return Record(
        at_s=float(row["timestamp"]) / 1000,
        input_tokens=_count(row["input_length"]),
        output_tokens=_count(row["output_length"]),
        hash_ids=tuple(int(number) for number in row["hash_ids"]),
    )


def _sharegpt(row: Row) -> Record:
    """Take the first question of a conversation and its answer."""
    turns = row.get("conversations") or row["conversation"]
    said = [(turn["from"], str(turn["value"])) for turn in turns]
    start = next((n for n, (who, _) in enumerate(said) if who in ("human", "user")), None)
    if start is None or start + 1 >= len(said):
        return Record(input_tokens=0)
    question = {"role": "user", "content": said[start][1]}
    return Record(messages=(question,), answer=said[start + 1][1], group=str(row.get("id", "")))


def _own(row: Row) -> Record:
    messages = tuple(row.get("messages") or ())
    if not messages and row.get("prompt"):
        messages = ({"role": "user", "content": str(row["prompt"])},)
    token_ids = tuple(int(token) for token in row.get("token_ids") or ())
    asked = row.get("input_tokens")
    return Record(
        at_s=None if row.get("at_s") in (None, "") else float(row["at_s"]),
        input_tokens=len(token_ids) if token_ids else None if asked is None else _count(asked),
        output_tokens=None if row.get("output_tokens") is None else _count(row["output_tokens"]),
        token_ids=token_ids,
        messages=messages,
        hash_ids=tuple(int(number) for number in row.get("hash_ids") or ()),
        group=str(row.get("group") or ""),
    )


FORMATS: Final = (
    Format(
        name="azure",
        needs=(("TIMESTAMP",), ("ContextTokens",), ("GeneratedTokens",)),
        record=_azure,
    ),
    Format(
        name="burstgpt",
        needs=(("Timestamp",), ("Request tokens",), ("Response tokens",)),
        record=_burstgpt,
    ),
    Format(
        name="mooncake",
        needs=(("timestamp",), ("input_length",), ("output_length",), ("hash_ids",)),
        record=_mooncake,
    ),
    Format(name="sharegpt", needs=(("conversations", "conversation"),), record=_sharegpt),
    Format(
        name="own",
        needs=(("token_ids", "prompt", "messages", "input_tokens"),),
        record=_own,
    ),
)
"""Every known format; the first that fits a file's columns is taken."""


def _clock_s(value: Any) -> float:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _count(value: Any) -> int:
    count = int(float(value))
    if count < 0:
        raise ValueError(f"a length of {value} tokens")
    return count
