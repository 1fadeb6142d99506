"""A URL that already serves is taken as it is and never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.launchers import Launch, LaunchError
from runner.launchers.attach import AttachLauncher


@pytest.mark.parametrize(
    ("url", "host", "port", "control_url"),
    [
        ("http://127.0.0.1:8000/", "127.0.0.1", 8000, "http://127.0.0.1:8000"),
        ("http://box", "box", 80, "http://box"),
        ("https://api.example.org", "api.example.org", 443, "https://api.example.org"),
        ("http://[::1]:9", "::1", 9, "http://[::1]:9"),
    ],
)
def test_a_url_gives_the_address_of_the_load(
    url: str, host: str, port: int, control_url: str, tmp_path: Path
) -> None:
    server = AttachLauncher().start(Launch(name="x", url=url), tmp_path / "log")
    assert (server.load_host, server.load_port) == (host, port)
    assert (server.control_url, server.way) == (control_url, "remote")


@pytest.mark.parametrize("url", [None, "", "127.0.0.1:8000", "ftp://box", "http://box:port"])
def test_what_is_no_http_address_is_a_launch_error(url: str | None, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="http://127"):
        AttachLauncher().start(Launch(name="x", url=url), tmp_path / "log")


def test_it_never_ends_by_our_doing(tmp_path: Path) -> None:
    server = AttachLauncher().start(Launch(name="x", url="http://box"), tmp_path / "log")
    assert server.stop(5).code is None
    server.remove()
    assert server.exited() is None
    assert server.seconds_of_line(1) is None
    assert (tmp_path / "log").read_bytes() == b""
