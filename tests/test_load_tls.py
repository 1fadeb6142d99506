"""HTTPS works, and its times are marked as the client's own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.load import Target
from runner.load.drive import drive
from runner.load.golden import Plan
from runner.load.golden.process import golden_ask, served

CERTIFY = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    words = [*CERTIFY.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    return key, certificate


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def terminated(port: int, key: Path, certificate: Path) -> Iterator[int]:
    """Terminate TLS before a port; give the port that speaks it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    threads: list[threading.Thread] = []
    sockets: list[socket.socket] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = listener.accept()
                with contextlib.suppress(ssl.SSLError):
                    secure = context.wrap_socket(plain, server_side=True)
                    behind = socket.create_connection(("127.0.0.1", port))
                    sockets.extend((secure, behind))
                    for pair in ((secure, behind), (behind, secure)):
                        threads.append(threading.Thread(target=pump, args=pair))
                        threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join()
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for sock in sockets:
            sock.close()


def test_https_gives_the_same_tokens_without_kernel_stamps(
    certificate: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
    with (
        served(Plan(ttft_s=0.02, itl_s=0.002), tmp_path / "truth") as golden,
        terminated(golden.port, *certificate) as port,
    ):
        driven = drive(
            target=Target(host="127.0.0.1", port=port, path="/v1/completions", tls=True),
            asks=[golden_ask(number, output_tokens=10) for number in range(12)],
            in_flight=3,
            request_timeout_s=10,
            spool=tmp_path / "spool",
        )
    timelines = list(driven.timelines())
    assert [(one.outcome, one.detail) for one in timelines] == [("ok", "")] * 12
    assert {one.stamp for one in timelines} == {"user"}
    assert driven.proof.stamp == "user"
    assert driven.proof.unstamped_ratio == 1
    assert driven.proof.client_lag_p50_s is None
    assert driven.proof.remaining_error_p99_s is not None


def test_a_server_whose_certificate_is_not_trusted_is_refused(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    with (
        served(Plan(), tmp_path / "truth") as golden,
        terminated(golden.port, *certificate) as port,
    ):
        driven = drive(
            target=Target(host="127.0.0.1", port=port, path="/v1/completions", tls=True),
            asks=[golden_ask(0, output_tokens=3)],
            in_flight=1,
            request_timeout_s=10,
            spool=tmp_path / "spool",
        )
    (one,) = driven.timelines()
    assert one.outcome == "refused"
    assert "certificate" in one.detail
