"""What scripted Dockers have in common: a socket file that DOCKER_HOST names, and JSON answers."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TypeVar

import pytest


class Scripted(socketserver.ThreadingUnixStreamServer):
    """A Docker on a socket file."""

    daemon_threads = True


S = TypeVar("S", bound=Scripted)


class Handler(BaseHTTPRequestHandler):
    """Answers every method alike, by `answer`, with JSON."""

    def answer(self) -> tuple[int, bytes] | None:
        """Return status and body; None for no answer at all."""
        raise NotImplementedError

    def do_GET(self) -> None:
        answered = self.answer()
        if answered is None:
            return
        status, body = answered
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET  # noqa: N815 - http.server's own names

    def address_string(self) -> str:
        return "socket"

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def listening(docker: S, monkeypatch: pytest.MonkeyPatch) -> Iterator[S]:
    """Let a scripted Docker answer for as long as the context lasts."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{docker.server_address}")
    with docker as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()
