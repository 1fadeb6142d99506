"""Control calls against servers that misbehave in every way, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn

import httpx
import pytest

from engines import Engine, Fact, Flush, Probe, Sample
from runner.boots import pages
from runner.boots.pages import Caller

Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a way to start a server that answers every connection by a function."""
    listeners = []

    def _serve(answer: Callable[[socket.socket], None]) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=_accept, args=(listener, answer), daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield _serve
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(listener: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        with peer, suppress(OSError):
            peer.recv(65536)
            answer(peer)


def body(text: bytes, status: str = "200 OK", headers: str = "") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(text)}\r\n\r\n".encode()
    return lambda peer: peer.sendall(head + text)


def forever(start: bytes, piece: bytes) -> Callable[[socket.socket], None]:
    def _answer(peer: socket.socket) -> None:
        peer.sendall(start)
        while True:
            peer.sendall(piece)

    return _answer


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SHORT = Caller(timeout_s=0.5)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (forever(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"), "over 8 MiB"),
        (forever(CHUNKED + b"fffffffff\r\n", b"x" * 65536), "over 8 MiB"),
        (forever(b"HTTP/1.1 200 OK\r\n", b"X-More: endless\r\n"), "Protocol"),
        (body(gzip.compress(b"x" * 100), headers="Content-Encoding: gzip\r\n"), "compressed"),
        (lambda peer: peer.sendall(b"\xff\xfe nonsense\r\n\r\n"), "Protocol"),
        (lambda peer: None, "disconnected"),
        (lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), "Protocol"),
        (lambda peer: threading.Event().wait(5), "no answer within"),
        (forever(CHUNKED, b""), "no answer within"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_server_that_misbehaves_is_no_answer_with_its_reason(
    serve: Serve, answer: Callable[[socket.socket], None], fault: str
) -> None:
    page = SHORT.get(serve(answer))
    assert page.status is None
    assert page.text == ""
    assert fault in page.fault


def test_drops_of_an_answer_do_not_stretch_the_time_of_a_call(serve: Serve) -> None:
    def drip(peer: socket.socket) -> None:
        peer.sendall(CHUNKED)
        while not threading.Event().wait(0.05):
            peer.sendall(b"1\r\nx\r\n")

    assert "no answer within" in SHORT.get(serve(drip)).fault


def test_nobody_there_is_no_answer() -> None:
    page = SHORT.get("http://127.0.0.1:1")
    assert (page.status, page.ok) == (None, False)


def test_invalid_utf8_is_replaced(serve: Serve) -> None:
    assert SHORT.get(serve(body(b"a\xffb"))).text == "a\ufffdb"


def test_an_error_status_is_an_answer(serve: Serve) -> None:
    page = SHORT.get(serve(body(b"no", status="503 Busy")))
    assert (page.status, page.text, page.ok) == (503, "no", False)


def test_a_signal_during_a_call_ends_the_run_and_tears_no_event_loop() -> None:
    on_thread = []

    class Signalling(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            on_thread.append(threading.current_thread())
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(600)
            raise AssertionError(request)

    def stop(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            Caller(timeout_s=600, transport=Signalling()).get("http://here")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert on_thread != [threading.main_thread()]


def test_a_proxy_of_the_environment_is_not_asked(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert SHORT.get(serve(body(b"direct"))).text == "direct"


METRICS = b"""# HELP toy:hits_total hits
# TYPE toy:hits_total counter
toy:hits_total{engine="0"} 12.0
# TYPE toy:used gauge
toy:used NaN
"""


def test_a_prometheus_page_becomes_samples() -> None:
    hits, used = pages.samples_of(METRICS.decode())
    assert hits == Sample(name="toy:hits_total", labels={"engine": "0"}, value=12.0)
    assert used.value != used.value


@pytest.mark.parametrize("text", ["{", "<html>", "a 1\nb{ 2\n"])
def test_a_page_that_breaks_the_format_gives_nothing_rather_than_a_part(text: str) -> None:
    assert pages.samples_of(text) == ()


def toy() -> Engine:
    return Engine(
        name="toy",
        port=1,
        image_program=(),
        local_program=(),
        known=((1,), (1,)),
        arguments=lambda served: pytest.fail("nothing is started here"),
        completion=lambda *asked: pytest.fail("nothing is generated here"),
        probes=(
            Probe(
                path="/info",
                source="server_info",
                read=lambda text: (Fact(name="version", value=text, source="server_info"),),
            ),
            Probe(path="/none", source="models", read=lambda text: pytest.fail("no page to read")),
        ),
        metrics_facts=lambda samples: tuple(
            Fact(name="kv_tokens", value=sample.value, source="metrics")
            for sample in samples
            if sample.name == "toy:hits_total"
        ),
        counters=lambda samples: {sample.name: sample.value for sample in samples},
        flush=Flush(method="POST", path="/flush", done=lambda status, text: text == "flushed"),
    )


@pytest.fixture
def base_url() -> Iterator[str]:
    """Return a server with the toy's pages."""
    known = {"/info": b"1.2", "/metrics": METRICS, "/flush": b"flushed"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = known.get(self.path)
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(found or b"")

        do_POST = do_GET  # noqa: N815 - http.server's own name

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_facts_come_from_the_info_pages_and_the_metrics(base_url: str) -> None:
    found = {fact.name: fact.value for fact in pages.stated(toy(), base_url).facts}
    assert found == {"version": "1.2", "kv_tokens": 12.0}


def test_a_page_that_does_not_exist_is_not_silent(base_url: str) -> None:
    assert pages.stated(toy(), base_url).silent == {}


def test_an_older_name_of_a_page_is_asked_only_where_the_newer_gave_nothing(base_url: str) -> None:
    (info, missing) = toy().probes
    both = replace(toy(), probes=(info, info))
    found = pages.stated(both, base_url).facts
    assert [fact.name for fact in found].count("version") == 1
    older = replace(toy(), probes=(replace(info, path="/new"), info, missing))
    found = pages.stated(older, base_url).facts
    assert [fact.name for fact in found].count("version") == 1


def test_a_page_that_is_late_or_fails_is_silent_with_its_reason(serve: Serve) -> None:
    late = serve(forever(CHUNKED, b""))
    assert "no answer within" in pages.stated(toy(), late, SHORT).silent["server_info"]
    failing = serve(body(b"no", status="500 Oh"))
    assert pages.stated(toy(), failing).silent["metrics"] == "/metrics: status 500"


def test_counters_come_from_the_metrics(base_url: str) -> None:
    assert pages.counters(toy(), base_url)["toy:hits_total"] == 12.0


def test_a_flush_tells_whether_the_cache_was_emptied(base_url: str) -> None:
    assert pages.flush(toy(), base_url) is True
    other = Flush(method="GET", path="/none", done=lambda status, text: status == 200)
    assert pages.flush(replace(toy(), flush=other), base_url) is False
    assert pages.flush(replace(toy(), flush=None), base_url) is None


def test_without_a_server_there_are_no_facts_no_counters_and_no_flush() -> None:
    nobody = "http://127.0.0.1:1"
    said = pages.stated(toy(), nobody)
    assert said.facts == ()
    assert said.silent.keys() == {"server_info", "models", "metrics"}
    assert "ConnectError" in said.silent["metrics"]
    assert pages.counters(toy(), nobody) == {}
    assert pages.flush(toy(), nobody) is None
