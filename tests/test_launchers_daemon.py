"""What Docker's absence and its answers become, against a scripted Docker on a socket file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import engines.causes
from runner.errors import HostError
from runner.launchers import Launch, LaunchError
from runner.launchers import docker as docker_launcher
from runner.launchers.daemon import Daemon, DaemonGone, Refused
from runner.launchers.docker import REASONS, DockerLauncher
from tests.docker_socket import Handler, Scripted, listening

Answers = dict[str, tuple[int, Any]]
IMAGE = {"Id": "sha256:1", "Architecture": "amd64", "RepoDigests": []}


class Docker(Scripted):
    """Answers each path that ends in a key of `answers`; what is not scripted is 404."""

    def __init__(self, path: Path) -> None:
        self.answers: Answers = {"/version": (200, {"ApiVersion": "1.41", "Arch": "amd64"})}
        super().__init__(str(path), Answering)


class Answering(Handler):
    def answer(self) -> tuple[int, bytes]:
        assert isinstance(self.server, Docker)
        path = self.path.partition("?")[0]
        scripted = [answer for end, answer in self.server.answers.items() if path.endswith(end)]
        status, body = scripted[0] if scripted else (404, {"message": "page not found"})
        return status, json.dumps(body).encode()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Docker]:
    with listening(Docker(tmp_path / "d.sock"), monkeypatch) as server:
        yield server


def test_a_docker_that_answers_knows_its_machine(fake: Docker) -> None:
    assert Daemon().architecture() == "amd64"
    assert Daemon().is_local


def test_an_answer_that_is_an_error_keeps_its_status_and_words(fake: Docker) -> None:
    fake.answers["/images/x/json"] = (404, {"message": "No such image: x"})
    with pytest.raises(Refused, match="No such image: x") as caught:
        Daemon().image("x")
    assert caught.value.status == 404


def test_a_docker_that_is_too_old_is_told_apart_from_none(fake: Docker) -> None:
    fake.answers["/version"] = (200, {"ApiVersion": "1.12", "Arch": "amd64"})
    with pytest.raises(DaemonGone, match="update Docker"):
        Daemon().ping()


def test_a_socket_that_may_not_be_opened_says_how_to_get_in(
    fake: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(host: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("runner.launchers.daemon._knock", forbidden)
    with pytest.raises(DaemonGone, match="usermod -aG docker"):
        Daemon().ping()


def test_a_docker_that_never_answered_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    asked = []

    def ask() -> None:
        asked.append(1)
        daemon.ping()

    daemon = Daemon()
    with pytest.raises(DaemonGone):
        daemon.ask(ask)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("reference", "digests", "digest"),
    [
        ("vllm/vllm-openai:v1", ["vllm/vllm-openai@sha256:a"], "vllm/vllm-openai@sha256:a"),
        ("docker.io/a/b:1", ["a/b@sha256:b", "z/y@sha256:c"], "a/b@sha256:b"),
        ("z/y:1", ["a/b@sha256:b", "z/y@sha256:c"], "z/y@sha256:c"),
        ("local:1", ["a/b@sha256:b"], "a/b@sha256:b"),
        ("local:1", [], "sha256:1"),
        ("local:1", None, "sha256:1"),
    ],
)
def test_an_image_resolves_to_the_digest_of_the_repository_that_was_named(
    fake: Docker, reference: str, digests: list[str] | None, digest: str
) -> None:
    fake.answers["/json"] = (200, {**IMAGE, "RepoDigests": digests})
    assert DockerLauncher().resolve(reference).digest == digest


def test_an_image_for_another_processor_is_refused_before_anything_starts(fake: Docker) -> None:
    fake.answers["/json"] = (200, {**IMAGE, "Architecture": "arm64"})
    with pytest.raises(HostError, match=r"for arm64 and this machine is amd64.*linux/amd64"):
        DockerLauncher().resolve("x")


def start(fake: Docker, tmp_path: Path, status: int, message: str) -> LaunchError:
    fake.answers |= {
        "/_ping": (200, "OK"),
        "/containers/create": (201, {"Id": "c1"}),
        "/c1/start": (status, {"message": message}),
        "/n/json": (200, {"Id": "c1", "Config": {"Labels": {}}}),
        "/containers/c1": (204, None),
    }
    with pytest.raises(LaunchError) as caught:
        DockerLauncher().start(Launch(name="n", image="x", port=1), tmp_path / "log")
    return caught.value


@pytest.mark.parametrize(
    ("message", "cause", "words"),
    [
        (
            'could not select device driver "" with capabilities: [[gpu]]',
            "docker_failed",
            "nvidia-ctk",
        ),
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0",
            "driver_mismatch",
            "newer NVIDIA driver",
        ),
        (
            "nvidia-container-cli: device error: GPU-x: unknown device",
            "docker_failed",
            "nvidia-smi",
        ),
        ("driver failed: Bind for 127.0.0.1:1: port is already allocated", "port_in_use", "stop"),
        ("exec /bin/x: exec format error", "launch_failed", "another architecture"),
        ("the moon is in the wrong house", "docker_failed", "moon"),
    ],
)
def test_the_words_of_a_refused_start_become_a_cause_and_advice(
    fake: Docker, tmp_path: Path, message: str, cause: str, words: str
) -> None:
    error = start(fake, tmp_path, 500, message)
    assert (error.phase, error.cause) == ("start", cause)
    assert message in str(error)
    assert words in str(error)


def test_every_cause_of_a_refused_start_is_in_the_catalogue() -> None:
    assert {cause for cause, _ in REASONS.values()} <= set(engines.causes.CATALOGUE)


@pytest.mark.parametrize(
    ("connect", "found"),
    [(ConnectionRefusedError, True), (TimeoutError, False), (OSError, False)],
)
def test_a_refusal_shows_that_a_host_is_reachable(
    connect: Callable[[], Exception], found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*asked: object) -> None:
        raise connect()

    monkeypatch.setattr("socket.create_connection", fails)
    assert docker_launcher.reachable("172.17.0.2", 8000) is found
