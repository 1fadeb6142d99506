"""From a tap's blocks to timelines: packets, segments in order, requests and their answers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runner.load import Timeline
from runner.load.answer import Answer

_PACKET: Final = struct.Struct("6I2H")
_HALF: Final = 1 << 31
_WRAP: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment. `client` names the connection; times are realtime nanoseconds."""

    at_ns: int
    client: bytes
    from_server: bool
    sequence: int
    begins: bool
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What a tap saw.

    Attributes:
        timelines: requests seen from their first segment, in that order.
        lost: packets that found no room in the ring.
        full: the tap's file reached its limit: the load's end is missing.
        clock_error_s: error of the stamps on CLOCK_MONOTONIC.
    """

    timelines: tuple[Timeline, ...]
    lost: int = 0
    full: bool = False
    clock_error_s: float = 0.0


def read(path: Path, port: int) -> Wire:
    """Read a tap's file."""
    told: dict[str, int] = {}
    flows: dict[bytes, Flow] = {}
    done: list[Timeline] = []
    with path.open("rb") as file:
        while length := struct.unpack("I", file.read(4))[0]:
            for segment in segments(file.read(length), port):
                flow = flows.setdefault(segment.client, Flow())
                done += flow.take(segment)
        told = json.loads(file.read())
    for flow in flows.values():
        done += flow.end("cancelled:the tap was closed")
    offset_ns = told["offset_ns"]
    found = [_mapped(one, offset_ns, number) for number, one in enumerate(sorted(done, key=_sent))]
    return Wire(
        timelines=tuple(found),
        lost=told["lost"],
        full=bool(told["full"]),
        clock_error_s=told["clock_error_ns"] / 1e9,
    )


def _sent(one: Timeline) -> int:
    return one.sent_ns


def segments(block: bytes, port: int) -> Iterator[Segment]:
    """Yield the TCP segments of one block of the ring."""
    (packets, at) = struct.unpack_from("II", block, 12)
    for _ in range(packets):
        step, seconds, nanoseconds, size, _, _, _, net = _PACKET.unpack_from(block, at)
        segment = _segment(
            block[at + net : at + net + size], seconds * 1_000_000_000 + nanoseconds, port
        )
        if segment is not None:
            yield segment
        at += step


def _segment(packet: bytes, at_ns: int, port: int) -> Segment | None:
    if len(packet) < 40:
        return None
    if packet[0] >> 4 == 4:
        start, end = (packet[0] & 15) * 4, int.from_bytes(packet[2:4], "big")
        source, target = packet[12:16], packet[16:20]
    else:
        start, end = 40, 40 + int.from_bytes(packet[4:6], "big")
        source, target = packet[8:24], packet[24:40]
    # a segment larger than 64 KiB, which the card would cut, has the length 0
    end = end if end > start else len(packet)
    from_port, _, sequence, _, flags = struct.unpack_from("!HHIIH", packet, start)
    from_server = from_port == port
    client = (
        target + packet[start + 2 : start + 4]
        if from_server
        else source + packet[start : start + 2]
    )
    return Segment(
        at_ns=at_ns,
        client=client,
        from_server=from_server,
        sequence=sequence,
        begins=bool(flags & 2),
        payload=packet[start + (flags >> 12) * 4 : end],
    )


@dataclass(slots=True)
class _Stream:
    """One direction of a connection, put in order."""

    next: int | None = None
    early: dict[int, Segment] = field(default_factory=dict)

    def take(self, segment: Segment) -> Iterator[tuple[int, bytes]]:
        """Yield (time, bytes) that are new and in order."""
        if segment.begins:
            self.next = (segment.sequence + 1) % _WRAP
            self.early.clear()
            return
        if not segment.payload:
            return
        if self.next is None:
            self.next = segment.sequence
        self.early.setdefault(segment.sequence, segment)
        while ready := self._ready():
            yield ready

    def _ready(self) -> tuple[int, bytes] | None:
        if self.next is None:
            return None
        for sequence, segment in list(self.early.items()):
            behind = (self.next - sequence) % _WRAP
            if behind >= _HALF:
                continue
            del self.early[sequence]
            fresh = segment.payload[behind:]
            if fresh:
                self.next = (self.next + len(fresh)) % _WRAP
                return segment.at_ns, fresh
        return None


class Flow:
    """One connection: posted requests one after another, each with its answer."""

    __slots__ = ("_answer", "_asked", "_last_ns", "_sent_ns", "_told")

    def __init__(self) -> None:
        self._asked = _Stream()
        self._told = _Stream()
        self._answer: Answer | None = None
        self._sent_ns = 0
        self._last_ns = 0

    def take(self, segment: Segment) -> list[Timeline]:
        """Take a segment; return the request that it ends, if any."""
        ended = self.end("closed") if segment.begins and not segment.from_server else []
        stream = self._told if segment.from_server else self._asked
        for at_ns, data in stream.take(segment):
            if not segment.from_server and self._answer is None:
                if data.startswith(b"POST "):
                    self._answer, self._sent_ns = Answer(), at_ns
            elif segment.from_server and self._answer is not None:
                self._last_ns = at_ns
                self._answer.read(data, [len(data)], [at_ns])
                if self._answer.finished():
                    ended += self.end("complete")
        return ended

    def end(self, ended: str) -> list[Timeline]:
        """End the request that is open, if any."""
        answer, self._answer = self._answer, None
        if answer is None:
            return []
        outcome, detail = answer.verdict(ended, None)
        times = tuple(answer.chunk_ns)
        return [
            Timeline(
                request=0,
                sent_ns=self._sent_ns,
                first_ns=times[0] if times else None,
                last_ns=times[-1] if times else None,
                ended_ns=self._last_ns,
                chunk_ns=times,
                chunk_tokens=tuple(answer.chunk_tokens),
                stamp="wire",
                input_tokens=answer.input_tokens,
                output_tokens=answer.counted_tokens
                if answer.output_tokens is None
                else answer.output_tokens,
                outcome="ok" if outcome == "no_usage" else outcome,
                detail=detail,
            )
        ]


def _mapped(one: Timeline, offset_ns: int, number: int) -> Timeline:
    """Map a timeline's times onto CLOCK_MONOTONIC and number it."""
    times = tuple(at_ns - offset_ns for at_ns in one.chunk_ns)
    return Timeline(
        request=number,
        sent_ns=one.sent_ns - offset_ns,
        first_ns=times[0] if times else None,
        last_ns=times[-1] if times else None,
        ended_ns=one.ended_ns - offset_ns,
        chunk_ns=times,
        chunk_tokens=one.chunk_tokens,
        stamp=one.stamp,
        input_tokens=one.input_tokens,
        output_tokens=one.output_tokens,
        outcome=one.outcome,
        detail=one.detail,
    )
