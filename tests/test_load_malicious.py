"""A server that means harm: the load ends in a class of failure, with memory and disk in bounds."""

from __future__ import annotations

import gzip
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner.load import Target
from runner.load.drive import drive
from runner.load.golden.process import golden_ask

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PIECE = b"x" * 65536
EVENT = b"data: {}\n\n"
BOMB = gzip.compress(bytes(1 << 24))
DISK_BYTES = 2 << 30

Serve = Callable[[bytes, bytes], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a way to start a server that answers with a beginning and then for ever the same."""
    listeners = []

    def _serve(begin: bytes, then: bytes) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=_accept, args=(listener, begin, then), daemon=True).start()
        return int(listener.getsockname()[1])

    yield _serve
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _accept(listener: socket.socket, begin: bytes, then: bytes) -> None:
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(peer, begin, then), daemon=True).start()


def _answer(peer: socket.socket, begin: bytes, then: bytes) -> None:
    with peer, suppress(OSError):
        peer.recv(1 << 20)
        peer.sendall(begin)
        while then:
            peer.sendall(then)


def chunk(payload: bytes) -> bytes:
    return f"{len(payload):x}\r\n".encode() + payload + b"\r\n"


@pytest.mark.parametrize(
    ("begin", "then", "outcome"),
    [
        (HEAD, b"X-More: endless\r\n" * 1000, "malformed"),
        (CHUNKED + b"2540be400\r\n", PIECE, "malformed"),
        (CHUNKED + b"fffffffffffffffff\r\ndata: ", PIECE, "malformed"),
        (CHUNKED, chunk(EVENT * 1000), "malformed"),
        (CHUNKED, chunk(b"data: \xff\xfe\n\n") * 1000, "malformed"),
        (HEAD + b"Content-Encoding: gzip\r\n\r\n" + BOMB, b"", "truncated"),
        (CHUNKED + b"; no size\r\n", PIECE, "malformed"),
    ],
    ids=["headers", "10 GB chunk", "endless event", "events", "UTF-8", "bomb", "no size"],
)
def test_harm_is_a_failed_request_within_bounds(
    serve: Serve, tmp_path: Path, begin: bytes, then: bytes, outcome: str
) -> None:
    spool = tmp_path / "spool"
    driven = drive(
        target=Target(host="127.0.0.1", port=serve(begin, then), path="/v1/completions"),
        asks=[golden_ask(number, output_tokens=4) for number in range(2)],
        in_flight=2,
        request_timeout_s=5,
        spool=spool,
    )
    assert {one.outcome for one in driven.timelines()} == {outcome}
    used_bytes = sum(path.stat().st_size for path in spool.rglob("*") if path.is_file())
    assert used_bytes < DISK_BYTES
    # of all children so far: load workers and parsers
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1 << 20
