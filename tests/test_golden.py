"""The golden server sends exactly what its plan says and writes down when it did."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.load import Timeline
from runner.load.answer import Answer
from runner.load.compare import compared
from runner.load.floor import floor
from runner.load.golden import Every, Plan, plan_for
from runner.load.golden.process import Golden, golden_ask, served
from runner.load.golden.request import read_body
from runner.load.golden.script import Asked, script_of

ASKED = Asked(input_tokens=5, output_tokens=8, usage=True, continuous=True)
MS = 1_000_000


def due_ms(plan: Plan) -> list[float]:
    script = script_of(plan, ASKED)
    timed = zip(script.due_ns, script.tokens, strict=True)
    return [due_ns / MS for due_ns, tokens in timed if tokens]


def test_token_k_is_due_at_ttft_plus_k_times_itl() -> None:
    assert due_ms(Plan(ttft_s=0.1, itl_s=0.01)) == [100, 110, 120, 130, 140, 150, 160, 170]


def test_a_chunk_is_due_with_its_last_token() -> None:
    assert due_ms(Plan(ttft_s=0.1, itl_s=0.01, chunk_tokens=3)) == [120, 150, 170]


def test_a_write_is_due_with_its_last_event() -> None:
    assert due_ms(Plan(ttft_s=0.1, itl_s=0.01, write_events=5)) == [140, 170]


def test_a_stall_delays_all_that_follows() -> None:
    plan = Plan(ttft_s=0.1, itl_s=0.01, stall_at=2, stall_s=1)
    assert due_ms(plan) == [100, 110, 1120, 1130, 1140, 1150, 1160, 1170]


def test_a_slow_head_delays_everything() -> None:
    script = script_of(Plan(ttft_s=0.1, head_delay_s=0.5), ASKED)
    assert script.due_ns[0] == 500 * MS
    assert script.due_ns[1] == 600 * MS


@given(
    st.builds(
        Plan,
        chunk_tokens=st.integers(1, 9),
        write_events=st.integers(1, 9),
        crlf=st.booleans(),
        comments=st.booleans(),
        interim=st.booleans(),
    ),
    st.booleans(),
)
def test_a_script_without_faults_is_an_answer_without_faults(plan: Plan, chat: bool) -> None:
    script = script_of(plan, replace(ASKED, chat=chat))
    data = b"".join(script.writes)
    answer = Answer()
    answer.read(data, [len(data)], [1])
    assert answer.verdict("complete", 8) == ("ok", "")
    assert sum(answer.chunk_tokens) == sum(script.tokens) == 8
    assert list(script.due_ns) == sorted(script.due_ns)


def test_the_first_rule_that_fits_changes_a_request() -> None:
    everys = (Every(nth=10, changes={"status": 500}), Every(nth=5, changes={"abort_at": 3}))
    plans = [plan_for(number, Plan(), everys) for number in (1, 5, 10)]
    assert [(plan.status, plan.abort_at) for plan in plans] == [(200, -1), (200, 3), (500, -1)]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [({"ttft": 1}, "a plan has no 'ttft'"), ({"status": "500"}, "status takes int")],
)
def test_a_change_that_is_none_is_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Plan().but(changes)


def test_a_prompt_of_ids_is_counted_without_being_parsed() -> None:
    body = json.dumps(
        {"prompt": [5, 6, 7], "max_tokens": 9, "golden_request": 4, "golden": {"itl_s": 1.0}}
    ).encode()
    asked, changes, number = read_body(body, chat=False)
    assert (asked.input_tokens, asked.output_tokens) == (3, 9)
    assert (changes, number) == ({"itl_s": 1.0}, 4)


def test_a_prompt_of_text_and_chat_messages_are_counted_by_words() -> None:
    text, *_ = read_body(b'{"prompt": "a [b] c", "max_tokens": 1}', chat=False)
    chat, *_ = read_body(b'{"messages": [{"role": "user", "content": "a b"}]}', chat=True)
    assert (text.input_tokens, chat.input_tokens) == (3, 2)


@pytest.fixture
def golden(tmp_path: Path) -> Iterator[Golden]:
    plan = Plan(ttft_s=0.02, itl_s=0.002)
    everys = (Every(nth=3, changes={"status": 503}),)
    with served(plan, tmp_path / "truth", everys=everys) as server:
        yield server


def post(connection: http.client.HTTPConnection, tokens: int) -> tuple[int, bytes]:
    ask = golden_ask(tokens, output_tokens=tokens)
    connection.request("POST", "/v1/completions", body=ask.body)
    response = connection.getresponse()
    return response.status, response.read()


def test_another_client_is_answered_and_its_truth_is_written(golden: Golden) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", golden.port, timeout=10)
    answers = [post(connection, tokens) for tokens in (4, 5, 6)]
    connection.close()
    assert [status for status, _ in answers] == [200, 200, 503]
    assert answers[0][1].count(b"data: ") == 6


def test_the_truth_has_receive_and_send_times_of_each_request(tmp_path: Path) -> None:
    with served(Plan(ttft_s=0.02, itl_s=0.002), tmp_path / "truth") as golden:
        connection = http.client.HTTPConnection("127.0.0.1", golden.port, timeout=10)
        post(connection, 4)
        connection.close()
    (truth,) = golden.truth()
    assert truth.request == 4
    assert len(truth.chunk_ns) == 4
    assert truth.sent_ns < truth.chunk_ns[0]
    assert list(truth.chunk_ns) == sorted(truth.chunk_ns)


def test_other_pages_answer_so_that_clients_find_a_server(golden: Golden) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", golden.port, timeout=10)
    for path, status in (("/health", 200), ("/v1/models", 200), ("/nowhere", 404)):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


def test_a_silent_server_keeps_the_connection_and_says_nothing(golden: Golden) -> None:
    ask = golden_ask(0, output_tokens=4, changes={"silent_at": 0})
    with socket.create_connection(("127.0.0.1", golden.port), timeout=0.3) as sock:
        head = b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(ask.body)
        sock.sendall(head + ask.body)
        with pytest.raises(TimeoutError):
            sock.recv(1)


def timeline(request: int, sent_ns: int, *chunk_ns: int) -> Timeline:
    return Timeline(request=request, sent_ns=sent_ns, chunk_ns=chunk_ns)


def test_errors_are_compared_request_by_request() -> None:
    true = [timeline(0, 100, 200, 300), timeline(1, 1000, 1500)]
    seen = [timeline(1, 990, 1520), timeline(0, 100, 205, 295), timeline(7, 0, 1)]
    errors = compared(seen, true)
    assert errors.ttft.count == 2
    assert errors.ttft.max_s == pytest.approx(30e-9)
    assert errors.itl.count == 1
    assert errors.itl.max_s == pytest.approx(10e-9)


def test_the_floor_of_the_client_is_measured() -> None:
    found = floor(in_flight=4, duration_s=0.5)
    assert found.in_flight == 4
    assert found.output_tokens_per_s is not None
    assert found.output_tokens_per_s > 100
    assert found.ttft_error_p50_s is not None
    assert found.itl_error_p50_s is not None
    assert found.itl_error_p50_s < 0.01
