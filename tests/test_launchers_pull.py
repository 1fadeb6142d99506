"""Images pulled through a scripted Docker: tried again, told of, refused, or given up in time."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import HostError
from runner.launchers import Launch, LaunchError, Pulling
from runner.launchers.docker import DockerLauncher
from runner.launchers.pull import TOLD_S, TRIES, Progress
from tests.docker_socket import Handler, Scripted, listening

DONE: list[dict[str, object]] = [
    {"status": "Downloading", "id": "a", "progressDetail": {"current": 1, "total": 2}}
]
IMAGE = {"Id": "sha256:1", "Architecture": "amd64", "RepoDigests": ["org/engine@sha256:a"]}


class Docker(Scripted):
    """Docker with a registry behind it.

    Attributes:
        held: the image is on this machine.
        events: what each pull answers in turn, the last for all that follow.
        pulls: how many there were.
        stuck: the last word of a path that never gets an answer.
    """

    def __init__(self, path: Path) -> None:
        self.held = False
        self.events: list[list[dict[str, object]]] = [DONE]
        self.pulls = 0
        self.stuck = ""
        self.over = threading.Event()
        super().__init__(str(path), Answering)


class Answering(Handler):
    def answer(self) -> tuple[int, bytes] | None:
        docker, path = self.server, self.path.partition("?")[0]
        assert isinstance(docker, Docker)
        if docker.stuck and path.endswith(docker.stuck):
            docker.over.wait(30)
            return None
        status, body = 404, b'{"message": "no such image"}'
        if path.endswith("/version"):
            status, body = 200, b'{"ApiVersion": "1.41", "Arch": "amd64"}'
        elif path.endswith("/images/create"):
            events = docker.events[min(docker.pulls, len(docker.events) - 1)]
            docker.pulls += 1
            docker.held = not any("error" in event for event in events)
            status, body = 200, b"\r\n".join(json.dumps(event).encode() for event in events)
        elif path.endswith(("/_ping", "/create", "/start")):
            status, body = 201, b'{"Id": "c1"}'
        elif docker.held and path.endswith("/json"):
            status, body = 200, json.dumps(IMAGE).encode()
        return status, body


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    with listening(Docker(tmp_path / "d.sock"), monkeypatch) as server:
        yield server
        server.over.set()


def resolved(when: str, told: list[str] | None = None, limit_s: float = 60) -> str:
    tell = (told if told is not None else []).append
    pulling = Pulling(when=when, limit_s=limit_s, tell=tell, pause_s=0.01)  # type: ignore[arg-type]
    return DockerLauncher().resolve("org/engine:1", pulling).digest


@pytest.mark.parametrize(
    ("when", "held", "pulls"),
    [("missing", False, 1), ("missing", True, 0), ("always", True, 1), ("never", True, 0)],
)
def test_an_image_is_pulled_where_that_is_asked(
    fake: Docker, when: str, held: bool, pulls: int
) -> None:
    fake.held = held
    assert resolved(when) == "org/engine@sha256:a"
    assert fake.pulls == pulls


def test_an_image_that_may_not_be_pulled_is_a_host_error_that_says_how(fake: Docker) -> None:
    with pytest.raises(HostError, match="docker pull org/engine:1"):
        resolved("never")
    assert fake.pulls == 0


def test_a_registry_that_fails_is_asked_again(fake: Docker) -> None:
    told: list[str] = []
    fake.events = [[{"error": "received unexpected HTTP status: 503"}], DONE]
    assert resolved("missing", told) == "org/engine@sha256:a"
    assert (fake.pulls, told[-1]) == (2, "pulling org/engine:1 failed; trying again")


@pytest.mark.parametrize(
    ("answer", "pulls"),
    [
        ("manifest unknown: manifest unknown", 1),
        ("pull access denied for org/engine", 1),
        ("unexpected EOF", TRIES),
    ],
)
def test_what_cannot_be_pulled_is_a_host_error_with_the_registry_s_words(
    fake: Docker, answer: str, pulls: int
) -> None:
    fake.events = [[{"error": answer}]]
    with pytest.raises(HostError, match=f"{answer}.*docker pull org/engine:1.*docker login"):
        resolved("missing")
    assert fake.pulls == pulls


def test_a_pull_that_is_stuck_ends_at_its_limit(fake: Docker) -> None:
    fake.stuck = "/images/create"
    with pytest.raises(HostError, match=r"not pulled within 1 s.*raise pull_s in \[timeouts\]"):
        resolved("missing", limit_s=1)


@pytest.mark.parametrize("phase", ["create", "start"])
def test_a_container_that_is_stuck_is_a_launch_error_that_names_the_phase(
    fake: Docker, tmp_path: Path, phase: str
) -> None:
    fake.stuck = f"/{phase}"
    launch = Launch(name="n", image="x", port=1, create_s=1, start_s=1)
    with pytest.raises(LaunchError, match="no answer within 1 s") as caught:
        DockerLauncher().start(launch, tmp_path / "log")
    assert (caught.value.phase, caught.value.cause) == (phase, "stuck")


def test_progress_is_told_from_time_to_time() -> None:
    told: list[str] = []
    times = iter([0.0, 1.0, TOLD_S + 1, TOLD_S + 1, TOLD_S + 2])
    progress = Progress(image="i", tell=told.append, clock=lambda: next(times))
    for current in (1, 2, 3):
        detail = {"current": current << 30, "total": 4 << 30}
        progress.take({"status": "Downloading", "id": "a", "progressDetail": detail})
    assert told == ["pulls i: 2.00 of 4.00 GiB of the layers that began"]
