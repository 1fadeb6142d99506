"""Any split of an answer's bytes gives the same tokens, and every defect is found."""

from __future__ import annotations

import bisect
import json
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.load.answer import Answer
from runner.load.golden import Plan
from runner.load.golden.script import Asked, script_of
from runner.load.http1 import Chunked, Malformed, Sized, framing_of, head_of

Outcome = tuple[str, str]


def wire(plan: Plan, **asked: bool) -> bytes:
    options = {"usage": True, "continuous": True, **asked}
    script = script_of(plan, Asked(input_tokens=3, output_tokens=8, **options))
    return b"".join(script.writes)


def read(data: bytes, ends: list[int]) -> Answer:
    answer = Answer()
    answer.read(data, ends, [1000 + number for number in range(len(ends))])
    return answer


def judged(answer: Answer, ended: str = "complete", asked_tokens: int | None = 8) -> Outcome:
    return answer.verdict(ended, asked_tokens)


PLANS = {
    "plain": Plan(),
    "four tokens in a chunk": Plan(chunk_tokens=4),
    "three events in a write": Plan(write_events=3),
    "CRLF": Plan(crlf=True),
    "comments": Plan(comments=True),
    "comments and CRLF": Plan(comments=True, crlf=True),
    "interim answer": Plan(interim=True),
    "body until close": Plan(chunked=False),
    "no usage but at the end": Plan(usage="final"),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_split_of_the_bytes_gives_the_same_tokens(
    plan: Plan, chat: bool, data: st.DataObject
) -> None:
    bytes_ = wire(plan, chat=chat)
    cuts = data.draw(st.sets(st.integers(1, len(bytes_) - 1), max_size=60))
    ended = "complete" if plan.chunked else "closed"
    whole = read(bytes_, [len(bytes_)])
    pieces = read(bytes_, [*sorted(cuts), len(bytes_)])
    assert pieces.chunk_tokens.tolist() == whole.chunk_tokens.tolist()
    assert judged(pieces, ended) == judged(whole, ended) == ("ok", "")
    assert sum(pieces.chunk_tokens) == 8


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_bytes_that_come_one_by_one_give_the_same_tokens(plan: Plan) -> None:
    data = wire(plan)
    answer = read(data, list(range(1, len(data) + 1)))
    assert sum(answer.chunk_tokens) == 8
    assert judged(answer, "complete" if plan.chunked else "closed") == ("ok", "")


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_a_chunk_arrives_with_the_read_that_completes_its_event(data: st.DataObject) -> None:
    bytes_ = wire(Plan())
    cuts = sorted(data.draw(st.sets(st.integers(1, len(bytes_) - 1), max_size=40)))
    ends = [*cuts, len(bytes_)]
    answer = read(bytes_, ends)
    events = [at + 2 for at in range(len(bytes_)) if bytes_.startswith(b"\n\n", at)][:8]
    arrived = [1000 + bisect.bisect_left(ends, end) for end in events]
    assert answer.chunk_ns.tolist() == arrived


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_an_answer_in_several_records_reads_as_one(data: st.DataObject) -> None:
    bytes_ = wire(Plan())
    cut = data.draw(st.integers(1, len(bytes_) - 1))
    answer = Answer()
    for part in (bytes_[:cut], bytes_[cut:]):
        sizes = [10] * (len(part) // 10) + [len(part) % 10]
        answer.read(part, list(accumulate(sizes)), list(range(len(sizes))))
    assert sum(answer.chunk_tokens) == 8
    assert judged(answer) == ("ok", "")


def test_tokens_of_a_chunk_are_the_growth_of_its_own_usage() -> None:
    answer = read(data := wire(Plan(chunk_tokens=3)), [len(data)])
    assert answer.chunk_tokens.tolist() == [3, 3, 2]
    assert answer.output_tokens == 8
    assert answer.input_tokens == 3
    assert answer.cached_tokens == 0


def test_without_continuous_usage_a_chunk_counts_as_one_token() -> None:
    answer = read(data := wire(Plan(chunk_tokens=4, usage="final")), [len(data)])
    assert answer.chunk_tokens.tolist() == [1, 1]
    assert answer.output_tokens == 8


def stream(*events: object) -> bytes:
    """Return an answer of the given events."""
    said = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    framed = b"".join(b"%x\r\ndata: %b\n\n\r\n" % (len(data) + 8, data) for data in said)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


def delta(usage: int | None = None, reason: str | None = None, **content: object) -> object:
    chunk: dict[str, object] = {"choices": [{"delta": content, "finish_reason": reason}]}
    if usage is not None:
        chunk["usage"] = {"completion_tokens": usage, "prompt_tokens": 3}
    return chunk


def test_role_only_empty_and_finish_chunks_are_no_tokens() -> None:
    data = stream(
        delta(role="assistant", content=""),
        delta(content="a"),
        delta(content=""),
        delta(reasoning_content="hm"),
        delta(tool_calls=[{"index": 0}]),
        delta(reason="stop"),
        {"choices": [], "usage": {"completion_tokens": 3, "prompt_tokens": 3}},
        b"[DONE]",
    )
    answer = read(data, [len(data)])
    assert answer.chunk_tokens.tolist() == [1, 1, 1]
    assert judged(answer, asked_tokens=3) == ("ok", "")


def test_a_token_without_visible_text_counts_where_usage_grows() -> None:
    data = stream(delta(1, content="a"), delta(2, content=""), delta(3, "length", content="b"))
    assert read(data, [len(data)]).chunk_tokens.tolist() == [1, 1, 1]


def test_a_role_chunk_without_usage_does_not_hide_the_usage_of_the_others() -> None:
    data = stream(delta(role="assistant"), delta(4, content="a b c d"), delta(8, content="e f g h"))
    assert read(data, [len(data)]).chunk_tokens.tolist() == [4, 4]


def test_usage_that_comes_only_with_the_finish_is_no_chunk_s_growth() -> None:
    data = stream(delta(content="a"), delta(content="b"), delta(9, "stop", content="c"))
    answer = read(data, [len(data)])
    assert answer.chunk_tokens.tolist() == [1, 1, 1]
    assert answer.output_tokens == 9


def test_text_that_looks_like_usage_is_only_text() -> None:
    said = '"finish_reason": null, "usage": {"completion_tokens": 99}'
    data = stream(delta(1, content="a"), delta(2, content=said), delta(3, content="b"))
    assert read(data, [len(data)]).chunk_tokens.tolist() == [1, 1, 1]


FAULTS: dict[str, tuple[bytes, Outcome]] = {
    "in-band error": (
        stream(delta(1, content="a"), {"error": {"message": "out of memory"}}, b"[DONE]"),
        ("in_band", "out of memory"),
    ),
    "error object": (
        stream({"object": "error", "message": "bad request"}, b"[DONE]"),
        ("in_band", "bad request"),
    ),
    "no [DONE]": (stream(delta(1, "length", content="a")), ("truncated", "no [DONE]")),
    "no finish reason": (
        stream(delta(1, content="a"), b"[DONE]"),
        ("truncated", "no finish reason"),
    ),
    "no usage": (stream(delta(reason="stop", content="a"), b"[DONE]"), ("no_usage", "1 chunks")),
    "wrong length": (
        stream(delta(1, "stop", content="a"), b"[DONE]"),
        ("wrong_length", "1 tokens of 8"),
    ),
    "not JSON": (stream(b"{'a': 1}", b"[DONE]"), ("malformed", "not JSON")),
    "not an object": (stream(b"[1]", b"[DONE]"), ("malformed", "not an object")),
    "not HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", ("malformed", "SSH")),
    "bad chunk size": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        ("malformed", "not a chunk size"),
    ),
    "status": (
        b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nqueue ful",
        ("status", "503: queue ful"),
    ),
    "redirect": (
        b"HTTP/1.1 307 Moved\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n",
        ("status", "redirects are not followed: /there"),
    ),
    "nothing": (b"", ("reset", "closed before any answer")),
}


@pytest.mark.parametrize(("data", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_defect_of_an_answer_has_its_own_class(data: bytes, expected: Outcome) -> None:
    answer = read(data, [*range(7, len(data), 7), len(data)] if data else [])
    outcome, detail = judged(answer)
    assert outcome == expected[0]
    assert expected[1] in detail


@given(st.integers(20, len(wire(Plan())) - 1))
@settings(deadline=None)
def test_an_answer_cut_short_is_no_success(size: int) -> None:
    answer = read(wire(Plan())[:size], [size])
    assert judged(answer, "closed")[0] == "truncated"


def test_what_the_server_said_of_a_failure_is_kept_short() -> None:
    data = b"HTTP/1.1 500 No\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
    outcome, detail = judged(read(data, [len(data)]))
    assert outcome == "status"
    assert len(detail) <= 300


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=30))
def test_chunked_payload_survives_any_framing_and_any_split(
    payload: bytes, sizes: list[int]
) -> None:
    framed, at = b"", 0
    for size in sizes:
        piece = payload[at : at + size]
        framed += b"%x;ext=1\r\n%b\r\n" % (len(piece), piece) if piece else b""
        at += size
    rest = payload[at:]
    framed += (b"%X\r\n%b\r\n" % (len(rest), rest) if rest else b"") + b"0\r\nTrailer: a\r\n\r\n"
    for step in (1, 2, 3, 7, len(framed)):
        chunked = Chunked()
        parts = [chunked.feed(framed[at : at + step]) for at in range(0, len(framed), step)]
        assert b"".join(parts) == payload
        assert chunked.finished


def test_bytes_beyond_the_end_are_malformed() -> None:
    chunked, sized = Chunked(), Sized(2)
    with pytest.raises(Malformed):
        chunked.feed(b"0\r\n\r\nmore")
    with pytest.raises(Malformed):
        sized.feed(b"abc")


@pytest.mark.parametrize(
    ("lines", "keeps"),
    [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0", True),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0", False),
        ("HTTP/1.0 200 OK\r\ncontent-length: 0", False),
        ("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0", True),
    ],
)
def test_a_connection_is_kept_when_the_head_allows_it(lines: str, keeps: bool) -> None:
    head = head_of(lines.encode() + b"\r\n\r\nrest")
    assert head is not None
    assert head.keep_alive is keeps
    assert head.rest == b"rest"
    assert framing_of(head).finished


def test_an_endless_head_is_malformed() -> None:
    with pytest.raises(Malformed, match="64 KiB"):
        head_of(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000)
