"""Models fetched from a small hub on loopback: once, whole, at a commit, or a clear refusal."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import pytest

from runner.errors import HostError
from runner.experiment.read import read
from runner.launchers import NO_PULL, Image, Launch, LaunchError, Pulling
from runner.load.floor import Floor
from runner.plan import expand
from runner.plan.cells import HubModel
from runner.preflight.fetch import TRIES, Hub
from runner.run import execute
from runner.stored.frames import results
from runner.world import World

COMMIT = "1234567890abcdef1234567890abcdef12345678"
MODEL = HubModel("org/tiny", "main")
FILES = {
    "config.json": b'{"vocab_size": 1000}',
    "model.safetensors": b"weights" * 1000,
    "pytorch_model.bin": b"the same weights once more",
}


class FakeHub(ThreadingHTTPServer):
    """Answers as the hub does for one model.

    Attributes:
        failures: so many calls are answered with 503 first.
        refusal: error code of the hub for the model, empty for none.
        asked: paths of all calls.
        tokens: what each call bore as authorization.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures = 0
        self.refusal = ""
        self.sizes: dict[str, int] = {}
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        hub, path = self.server, unquote(urlsplit(self.path).path)
        assert isinstance(hub, FakeHub)
        hub.asked.append(f"{self.command} {path}")
        hub.tokens.add(self.headers.get("Authorization"))
        if hub.failures:
            hub.failures -= 1
            return self.answer(503, b"busy")
        if hub.refusal:
            return self.answer(403 if "Gated" in hub.refusal else 404, b"no", code=hub.refusal)
        if path.startswith("/api/models/org/tiny/tree/"):
            return self.answer(200, json.dumps([entry(name) for name in FILES]).encode())
        if path.startswith("/api/models/org/tiny"):
            siblings = [
                {"rfilename": name, "size": hub.sizes.get(name, len(content))}
                for name, content in FILES.items()
            ]
            about = {"id": "org/tiny", "sha": COMMIT, "siblings": siblings}
            return self.answer(200, json.dumps(about).encode())
        name = path.rpartition("/")[2]
        return self.answer(200, FILES[name], etag=f'"{hashlib.sha1(FILES[name]).hexdigest()}"')

    do_HEAD = do_GET  # noqa: N815 - http.server's own name

    def answer(self, status: int, body: bytes, *, code: str = "", etag: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", COMMIT)
        if code:
            self.send_header("X-Error-Code", code)
        if etag:
            self.send_header("ETag", etag)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def entry(name: str) -> dict[str, Any]:
    content = FILES[name]
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": name, "size": len(content), "oid": oid}


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with FakeHub() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@dataclass
class Fetching:
    """A fetch from the fake hub, and what it told."""

    fake: FakeHub
    models: Path
    environment: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    limit_s: float = 60
    pause_s: float = 0.01

    def fetch(self, model: HubModel = MODEL) -> str:
        environment = {"HF_ENDPOINT": self.fake.url, **self.environment}
        return Hub(
            models=self.models,
            environment=environment,
            limit_s=self.limit_s,
            tell=self.told.append,
            pause_s=self.pause_s,
        ).fetch(model)


def test_no_try_begins_after_fetch_s(fake: FakeHub, tmp_path: Path) -> None:
    fake.failures = 1000
    fetching = Fetching(fake, tmp_path / "hf", limit_s=0.5, pause_s=0.3)
    with pytest.raises(HostError, match="could not be fetched"):
        fetching.fetch()
    assert len(fetching.told) < TRIES - 1


@pytest.fixture
def fetching(fake: FakeHub, tmp_path: Path) -> Fetching:
    return Fetching(fake, tmp_path / "hf")


def test_a_model_comes_whole_at_its_commit_and_each_weight_once(fetching: Fetching) -> None:
    assert fetching.fetch() == COMMIT
    snapshot = fetching.models / "hub/models--org--tiny/snapshots" / COMMIT
    assert {path.name for path in snapshot.iterdir()} == {"config.json", "model.safetensors"}
    assert (snapshot / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    assert (snapshot.parents[1] / "refs/main").read_text() == COMMIT


def test_what_is_cached_is_not_fetched_again(fetching: Fetching) -> None:
    fetching.fetch()
    fetching.fake.asked.clear()
    assert fetching.fetch() == COMMIT
    assert not [
        path for path in fetching.fake.asked if path.startswith("GET") and "/resolve/" in path
    ]


def test_a_hub_that_is_busy_is_asked_again(fetching: Fetching) -> None:
    fetching.fake.failures = 2
    assert fetching.fetch() == COMMIT
    assert sum("trying again" in told for told in fetching.told) >= 1


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ("GatedRepo", "accept its terms at .*/org/tiny, and export HF_TOKEN"),
        ("RepoNotFound", "no model org/tiny at .*check its name"),
        ("RevisionNotFound", "has no revision main"),
    ],
)
def test_what_cannot_be_had_is_a_host_error_that_says_where_to_go(
    fetching: Fetching, refusal: str, words: str
) -> None:
    fetching.fake.refusal = refusal
    with pytest.raises(HostError, match=words):
        fetching.fetch()
    assert len(fetching.fake.asked) == 1


def test_a_model_larger_than_the_disk_is_refused_before_a_byte_is_fetched(
    fetching: Fetching,
) -> None:
    fetching.fake.sizes["model.safetensors"] = 1 << 60
    with pytest.raises(HostError, match="make room"):
        fetching.fetch()
    assert not [path for path in fetching.fake.asked if "/resolve/" in path]


def test_without_the_hub_the_cached_commit_is_used_and_said(fetching: Fetching) -> None:
    fetching.fetch()
    fetching.fake.failures = 1000
    assert fetching.fetch() == COMMIT
    assert "1234567890ab is cached" in fetching.told[-1]


def test_without_hub_and_cache_it_is_a_host_error(fetching: Fetching) -> None:
    fetching.fake.failures = 1000
    with pytest.raises(HostError, match="could not be fetched"):
        fetching.fetch()


def test_offline_asks_nobody(fetching: Fetching) -> None:
    fetching.environment["HF_HUB_OFFLINE"] = "1"
    with pytest.raises(HostError, match="unset HF_HUB_OFFLINE"):
        fetching.fetch()
    assert fetching.fake.asked == []


def test_a_token_reaches_the_hub_and_no_message(fetching: Fetching) -> None:
    fetching.environment["HF_TOKEN"] = "hf_canary"
    fetching.fetch()
    assert fetching.fake.tokens == {"Bearer hf_canary"}
    assert "canary" not in "".join(fetching.told)


EXPERIMENT = """
question = "Is the model fetched before anything starts?"
boots = 1
[common]
model = "org/tiny"
[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
gpus = 0
[engines.attached]
engine = "sglang"
launcher = "attach"
url = "http://127.0.0.1:1"
model = "org/other"
[cache]
compile = "none"
[[loads]]
workload = "random"
input_tokens = 8
output_tokens = 2
concurrency = 1
requests = 1
"""


MEASURED = [field.name for field in dataclasses.fields(Floor) if field.name != "in_flight"]


class NoStart:
    """A launcher that starts nothing and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Launch] = []

    def resolve(self, image: str, pulling: Pulling = NO_PULL) -> Image:
        return Image(reference=image, digest="sha256:1")

    def start(self, launch: Launch, log: Path) -> NoReturn:
        self.asked.append(launch)
        raise LaunchError("create", "docker_failed", "nothing starts here")


def test_a_container_gets_the_fetched_commit_read_only_and_offline(
    fake: FakeHub, tmp_path: Path
) -> None:
    path, launcher = tmp_path / "tiny.toml", NoStart()
    path.write_text(EXPERIMENT)
    world = World(
        launcher=lambda kind: launcher,
        sweep=lambda kinds: (),
        nvml=lambda: None,
        floor=lambda client: Floor(in_flight=1, **dict.fromkeys(MEASURED)),
        environment={"HF_ENDPOINT": fake.url, "HF_HOME": str(tmp_path / "hf")},
    )
    execute(expand(read(path)), world, tmp_path / "results")

    [asked] = [launch for launch in launcher.asked if launch.image]
    assert asked.argv[asked.argv.index("--revision") + 1] == COMMIT
    assert asked.env["HF_HUB_OFFLINE"] == "1"
    [mount] = asked.mounts
    assert (mount.source, mount.read_only) == (tmp_path / "hf", True)
    boots = results(tmp_path / "results" / "tiny").boots
    assert set(boots.model_build.dropna()) == {COMMIT}
    assert not [one for one in fake.asked if "org/other" in one]
