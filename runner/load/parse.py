"""Beside each worker: reads its spool, turns answers into timelines, and weighs every stamp.

A process of its own, at the lowest priority, so that parsing never delays the measured thread.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from runner.load import Timeline, shard
from runner.load.answer import Answer
from runner.load.feed import asked_from
from runner.load.lags import Lags
from runner.load.priority import yield_always
from runner.load.spool import Reader, Record

_REST_S: Final = 0.02
_RAW_BYTES: Final = 1 << 16
_RAW_LIMIT_BYTES: Final = 64 << 20


class Parser:
    """Turns records into timelines and counts what the proof needs.

    Of failed requests, the first 64 KiB are kept as they came (64 MiB in all), each behind a line
    of JSON.

    Attributes:
        lag: own stamp minus kernel stamp, of every read that has one.
        doubt: for each chunk whose arrival is not known exactly, the span it must have come in.
    """

    def __init__(self, out: BinaryIO, failed: BinaryIO) -> None:
        self._out = out
        self._failed = failed
        self._raw: dict[int, bytes] = {}
        self._cpu_from_ns = time.process_time_ns()
        self._answers: dict[int, Answer] = {}
        self._user_stamped: set[int] = set()
        self.lag = Lags()
        self.doubt = Lags()
        self.counts = dict.fromkeys(
            (
                "reads",
                "bytes",
                "token_reads",
                "several",
                "unstamped",
                "exact_chunks",
                "input_mismatches",
            ),
            0,
        )

    def take(self, record: Record) -> None:
        """Read one record; write the timeline when the request has ended."""
        answer = self._answers.get(record.number)
        if answer is None:
            answer = Answer(keep=asked_from(record.asked).keep_answer)
            self._answers[record.number] = answer
        self._read(answer, record)
        raw = (self._raw.pop(record.number, b"") + record.data)[:_RAW_BYTES]
        if not record.ended:
            self._raw[record.number] = raw
            return
        del self._answers[record.number]
        timeline = self._timeline(answer, record)
        shard.write(self._out, timeline, answer.chunk_ns, answer.chunk_tokens)
        if timeline.outcome != "ok" and raw and self._failed.tell() < _RAW_LIMIT_BYTES:
            about = {"request": timeline.request, "outcome": timeline.outcome, "bytes": len(raw)}
            self._failed.write(json.dumps(about).encode() + b"\n" + raw + b"\n")

    def _read(self, answer: Answer, record: Record) -> None:
        own, kernel, since = record.own_ns, record.kernel_ns, record.since_ns
        arrived = [stamp or late for stamp, late in zip(kernel, own, strict=True)]
        found = answer.read(record.data, list(itertools.accumulate(record.sizes)), arrived)
        lags = [late - stamp for stamp, late in zip(kernel, own, strict=True) if stamp]
        self.lag.add(lags)
        self.counts["reads"] += len(own)
        self.counts["bytes"] += len(record.data)
        self.counts["unstamped"] += len(own) - len(lags)
        doubts = []
        for number, tokens in _by_read(found):
            chunks = sum(map(bool, tokens))
            if not chunks:
                continue
            exact = bool(tokens[-1] and kernel[number])
            self.counts["token_reads"] += 1
            self.counts["several"] += chunks > 1
            self.counts["exact_chunks"] += exact
            doubts += [arrived[number] - since[number]] * (chunks - exact)
            if not kernel[number]:
                self._user_stamped.add(record.number)
        self.doubt.add(doubts)

    def _timeline(self, answer: Answer, record: Record) -> Timeline:
        asked = asked_from(record.asked)
        outcome, detail = answer.verdict(record.ended, asked.output_tokens)
        user = record.number in self._user_stamped
        self._user_stamped.discard(record.number)
        if outcome == "ok" and asked.input_tokens not in (None, answer.input_tokens):
            self.counts["input_mismatches"] += 1
        return Timeline(
            request=record.number,
            group=asked.group,
            role=asked.role,
            warmup=record.warmup,
            intended_ns=None if record.due_ns < 0 else record.due_ns,
            sent_ns=record.sent_ns,
            ended_ns=record.ended_ns,
            stamp="user" if user or not answer.chunk_ns else "kernel",
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cached_tokens=answer.cached_tokens,
            outcome=outcome,
            detail=detail,
            answer=answer.said.text if answer.said else None,
            answer_ids=answer.said.ids if answer.said else None,
        )

    def report(self) -> dict[str, object]:
        """Return what the proof needs, as JSON takes it."""
        return {
            **self.counts,
            "lag": self.lag.plain(),
            "doubt": self.doubt.plain(),
            "cpu_ns": time.process_time_ns() - self._cpu_from_ns,
        }


def _by_read(found: Sequence[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """Gather the tokens of the events that one read completed."""
    for number, events in itertools.groupby(found, lambda event: event[0]):
        yield number, [tokens for _, tokens in events]


def follow(spool: Path, out: Path, report: Path, parent: int) -> None:
    """Parse a spool until its writer, or the process that started us, `parent`, has ended."""
    reader = Reader(spool)
    with out.open("wb") as file, out.with_suffix(".failed").open("wb") as failed:
        parser = Parser(file, failed)
        ended = False
        while not ended:
            ended = reader.ended()
            for record in reader.records():
                parser.take(record)
            if os.getppid() != parent:
                return
            if not ended:
                time.sleep(_REST_S)
    report.write_text(json.dumps(parser.report()))


def main() -> None:
    """Follow the spool named on the command line."""
    yield_always()
    spool, out, report, parent = sys.argv[1:5]  # it may have died before we could ask who it is
    follow(Path(spool), Path(out), Path(report), int(parent))


if __name__ == "__main__":
    main()
