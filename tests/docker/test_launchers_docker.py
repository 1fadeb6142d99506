"""Containers as servers, against the real Docker daemon."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from runner.errors import HostError
from runner.launchers import Exit, Launch, LaunchError, Mount, docker
from runner.launchers.container import DockerServer
from runner.launchers.daemon import Daemon
from runner.launchers.docker import DockerLauncher
from runner.launchers.docker_line import equivalent

pytestmark = pytest.mark.docker

SERVE = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='0.0.0.0')"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"

Start = Callable[..., DockerServer]


def cli(*words: str) -> str:
    return subprocess.run(
        ["docker", *words], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def wait_until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.05)


def ended(server: DockerServer) -> Exit:
    wait_until(lambda: server.exited() is not None)
    how = server.exited()
    assert how is not None
    return how


def names() -> list[str]:
    return cli("ps", "-a", "--format", "{{.Names}}").split()


@pytest.fixture
def launch(base_image: str) -> Launch:
    name = f"runner-test-{uuid.uuid4().hex[:12]}"
    return Launch(
        name=name, image=base_image, argv=("true",), port=8000, labels={"runner.test": name}
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.fixture
def start(launch: Launch, log: Path) -> Iterator[Start]:
    servers = []
    launcher = DockerLauncher()

    def _start(code: str, **more: Any) -> DockerServer:
        asked = replace(launch, argv=("python3", "-c", code), **more)
        servers.append(launcher.start(asked, log))
        return servers[-1]

    yield _start
    for server in servers:
        server.remove()
    assert launch.name not in names()


def test_a_container_that_ends_by_itself_tells_its_code_and_its_whole_output(
    start: Start, log: Path
) -> None:
    server = start("import sys; sys.stderr.write('x' * 40_000 + '\\n'); print('last'); sys.exit(3)")
    assert ended(server) == Exit(code=3)
    server.remove()
    assert sorted(log.read_text().split(), key=len) == ["last", "x" * 40_000]
    assert server.seconds_of_line(2) is not None
    assert server.seconds_of_line(3) is None


def test_the_load_goes_to_the_address_of_the_container(start: Start, log: Path) -> None:
    server = start(SERVE)
    wait_until(lambda: answers(server.control_url))
    assert server.way == "container"
    assert server.load_host == cli("inspect", server.id, "-f", "{{.NetworkSettings.IPAddress}}")
    assert server.load_port == 8000
    wait_until(lambda: b"GET / HTTP" in log.read_bytes())


def test_where_that_address_cannot_be_reached_the_loopback_port_is_used(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "reachable", lambda host, port: False)
    server = start(SERVE)
    assert (server.way, server.load_host) == ("published", "127.0.0.1")
    wait_until(lambda: answers(server.control_url))
    assert cli("port", server.id, "8000/tcp") == f"127.0.0.1:{server.load_port}"


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_living_container_stops_on_sigterm(start: Start, log: Path) -> None:
    server = start(SLEEP)
    # a signal that comes before init has its handlers is lost
    wait_until(lambda: b"up" in log.read_bytes())
    assert server.exited() is None
    assert server.stop(20) == Exit(code=128 + signal.SIGTERM)


def test_a_container_that_ignores_sigterm_is_killed_after_the_grace(
    start: Start, log: Path
) -> None:
    server = start(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('up', flush=True); time.sleep(600)"
    )
    wait_until(lambda: b"up" in log.read_bytes())
    assert server.stop(0.2) == Exit(code=128 + signal.SIGKILL, forced=True)


def test_stop_and_remove_are_safe_to_call_twice_and_keep_the_first_answer(start: Start) -> None:
    server = start("raise SystemExit(7)")
    assert ended(server) == Exit(code=7)
    assert [server.stop(1), server.stop(1)] == [Exit(code=7)] * 2
    server.remove()
    server.remove()
    assert server.exited() == Exit(code=7)


def test_sigkill_from_outside_is_an_exit_code_of_137(start: Start) -> None:
    server = start(SLEEP)
    os.kill(int(cli("inspect", server.id, "-f", "{{.State.Pid}}")), signal.SIGKILL)
    assert ended(server) == Exit(code=137)


def test_a_container_removed_behind_our_back_is_told_as_removed(start: Start, log: Path) -> None:
    server = start(SLEEP)
    wait_until(lambda: b"up" in log.read_bytes())
    cli("rm", "-f", server.id)
    how = ended(server)
    assert how.removed
    assert server.stop(1) == how
    server.remove()
    assert log.read_bytes() == b"up\n"


def test_a_container_over_its_memory_limit_is_told_as_oom_killed(start: Start) -> None:
    server = start("x = bytearray(200 << 20)", memory_bytes=64 << 20)
    assert ended(server) == Exit(code=137, oom_killed=True)


def test_arguments_pass_no_shell(launch: Launch, log: Path) -> None:
    argv = ("python3", "-c", "import sys; print(sys.argv[1:])", "$HOME; `id`", "a  b", "*")
    server = DockerLauncher().start(replace(launch, argv=argv), log)
    ended(server)
    server.remove()
    assert log.read_text() == "['$HOME; `id`', 'a  b', '*']\n"


def test_a_secret_reaches_the_server_by_name_and_stays_out_of_log_and_line(
    start: Start, log: Path, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary_value")
    server = start(
        "import os; print(len(os.environ['HF_TOKEN']), os.environ['HF_TOKEN'])",
        secrets=("HF_TOKEN",),
    )
    ended(server)
    server.remove()
    assert log.read_text() == "15 [HF_TOKEN]\n"
    assert "-e HF_TOKEN " in equivalent(replace(launch, secrets=("HF_TOKEN",)))


@pytest.fixture
def rich(launch: Launch, tmp_path: Path) -> Launch:
    """Return a launch that asks for everything but GPUs."""
    (tmp_path / "models, all").mkdir()
    return replace(
        launch,
        argv=("sleep", "600"),
        env={"A": "1 2"},
        mounts=(
            Mount(source=tmp_path / "models, all", target="/models"),
            Mount(source=tmp_path, target="/cache", read_only=False),
        ),
        cpus="0",
        memory_bytes=256 << 20,
        shm_bytes=128 << 20,
    )


def test_a_container_gets_what_is_asked_and_no_more(rich: Launch) -> None:
    made = DockerLauncher().create_only(rich)
    host = made["HostConfig"]
    assert made["Config"]["Labels"] == dict(rich.labels)
    assert made["Config"]["Cmd"] == ["sleep", "600"]
    assert "A=1 2" in made["Config"]["Env"]
    assert {mount["Target"]: mount.get("ReadOnly", False) for mount in host["Mounts"]} == {
        "/models": True,
        "/cache": False,
    }
    assert host["PortBindings"] == {"8000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}
    assert (host["CpusetCpus"], host["Memory"], host["ShmSize"]) == ("0", 256 << 20, 128 << 20)
    assert (host["AutoRemove"], host["Privileged"], host["CapAdd"]) == (False, False, None)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert "NET_RAW" in host["CapDrop"]
    assert host["RestartPolicy"]["Name"] in {"", "no"}
    assert rich.name not in names()


def test_the_ipc_namespace_of_the_host_is_shared_when_asked(launch: Launch) -> None:
    made = DockerLauncher().create_only(replace(launch, host_ipc=True))
    assert made["HostConfig"]["IpcMode"] == "host"


@pytest.mark.parametrize(
    ("gpus", "count", "ids"),
    [(2, 2, None), (("GPU-aaaa", "GPU-bbbb"), 0, ["GPU-aaaa", "GPU-bbbb"])],
)
def test_gpus_become_a_device_request(
    launch: Launch, gpus: int | tuple[str, ...], count: int, ids: list[str] | None
) -> None:
    made = DockerLauncher().create_only(replace(launch, gpus=gpus))
    (request,) = made["HostConfig"]["DeviceRequests"]
    assert (request["Count"], request["DeviceIDs"] or None) == (count, ids)
    assert request["Capabilities"] == [["gpu"]]


@pytest.mark.parametrize("gpus", [0, 2, ("GPU-aaaa",), ("GPU-aaaa", "GPU-bbbb")])
def test_the_line_of_the_plan_makes_the_same_container(
    rich: Launch, gpus: int | tuple[str, ...]
) -> None:
    asked = replace(rich, gpus=gpus)
    ours = DockerLauncher().create_only(asked)
    words = shlex.split(equivalent(asked))
    assert words[:2] == ["docker", "run"]
    cli("create", *words[2:])
    try:
        theirs = Daemon().inspect(asked.name)
    finally:
        cli("rm", asked.name)
    assert same(theirs["HostConfig"]) == same(ours["HostConfig"])
    for key in ("Cmd", "Env", "Labels", "Image", "ExposedPorts", "Entrypoint"):
        assert theirs["Config"][key] == ours["Config"][key], key


def same(config: dict[str, Any]) -> dict[str, Any]:
    """Return a host config without what two clients spell differently and mean alike."""
    filled = {key: value for key, value in config.items() if value}
    filled["Mounts"] = [
        {key: value for key, value in mount.items() if value} for mount in config["Mounts"]
    ]
    filled["DeviceRequests"] = [
        {key: value for key, value in request.items() if value}
        for request in config["DeviceRequests"] or ()
    ]
    filled["CapDrop"] = [name.removeprefix("CAP_") for name in config["CapDrop"]]
    for cosmetic in ("ConsoleSize", "RestartPolicy", "MemorySwappiness"):
        filled.pop(cosmetic, None)
    return filled


def test_an_image_that_is_missing_is_a_host_error_that_says_what_to_type() -> None:
    with pytest.raises(HostError, match="`docker pull no/such-image:1`"):
        DockerLauncher().resolve("no/such-image:1")


def test_an_image_without_a_repository_resolves_to_its_id(base_image: str) -> None:
    found = DockerLauncher().resolve(base_image)
    assert found.digest.startswith(("sha256:", "python@sha256:"))
    assert DockerLauncher().resolve(found.digest).digest == found.digest


@pytest.mark.parametrize(
    ("change", "phase", "cause", "words"),
    [
        ({"image": "no/such-image:1"}, "create", "image_missing", "pull it"),
        ({"gpus": 1}, "start", "docker_failed", "nvidia-container-toolkit"),
        (
            {"mounts": (Mount(source=Path("/no/such/folder"), target="/models"),)},
            "create",
            "launch_failed",
            "create that folder",
        ),
        ({"secrets": ("NOT_SET_ANYWHERE",)}, "create", "launch_failed", "export"),
    ],
)
def test_a_start_that_fails_says_why_and_leaves_nothing(
    launch: Launch, log: Path, change: dict[str, Any], phase: str, cause: str, words: str
) -> None:
    with pytest.raises(LaunchError, match=words) as caught:
        DockerLauncher().start(replace(launch, **change), log)
    assert (caught.value.phase, caught.value.cause) == (phase, cause)
    assert launch.name not in names()


def test_a_program_that_the_image_lacks_is_exit_code_127_with_its_name_in_the_log(
    launch: Launch, log: Path
) -> None:
    server = DockerLauncher().start(replace(launch, argv=("no-such-program",)), log)
    assert ended(server) == Exit(code=127)
    server.remove()
    assert "no-such-program" in log.read_text()


def test_a_name_that_is_taken_is_a_launch_error_and_its_bearer_stays(
    launch: Launch, log: Path
) -> None:
    cli("create", "--name", launch.name, launch.image or "", "true")
    try:
        with pytest.raises(LaunchError, match="runner clean"):
            DockerLauncher().start(launch, log)
        assert launch.name in names()
    finally:
        cli("rm", launch.name)


class Relay:
    """Docker's socket at another path, which can go away and come back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: list[socket.socket] = []
        self.restore()

    def restore(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        self.path.unlink()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.socket(socket.AF_UNIX) as far:
            far.connect("/var/run/docker.sock")
            self._open += [near, far]
            back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            back.start()
            self._pump(near, far)
            back.join()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def collected() -> Iterator[None]:
    """Collect the broken sockets that the SDK leaves to the collector, which warns of them."""
    yield
    gc.collect()


@pytest.fixture
def relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collected: object) -> Iterator[Relay]:
    relay = Relay(tmp_path / "docker.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{relay.path}")
    yield relay
    relay.cut()


def directly(*words: str) -> None:
    """Speak to Docker past the relay."""
    host = {**os.environ, "DOCKER_HOST": "unix:///var/run/docker.sock"}
    subprocess.run(["docker", *words], check=True, capture_output=True, env=host, timeout=60)


BREAKS_SOCKETS = pytest.mark.filterwarnings("ignore::ResourceWarning")
COUNT = "import time\nfor n in range(1000): print(n, flush=True); time.sleep(0.02)"


@BREAKS_SOCKETS
def test_output_goes_on_where_it_broke_off_when_docker_is_back(
    relay: Relay, start: Start, log: Path
) -> None:
    server = start(COUNT)
    for n in (20, 60):
        wait_until(lambda n=n: log.read_bytes().count(b"\n") > n)  # type: ignore[misc]
        relay.cut()
        time.sleep(0.3)
        relay.restore()
    wait_until(lambda: log.read_bytes().count(b"\n") > 100)
    assert server.exited() is None
    server.stop(5)
    server.remove()
    lines = log.read_text().split()
    assert lines == [str(n) for n in range(len(lines))]


@BREAKS_SOCKETS
def test_an_end_while_docker_was_away_is_learned_when_it_is_back(
    relay: Relay, start: Start, log: Path
) -> None:
    server = start(COUNT)
    wait_until(lambda: log.read_bytes().count(b"\n") > 5)
    relay.cut()
    directly("kill", server.id)
    assert server.exited() is None
    relay.restore()
    assert ended(server) == Exit(code=137, daemon_lost=True)


@BREAKS_SOCKETS
def test_stop_waits_for_a_docker_that_comes_back(relay: Relay, start: Start) -> None:
    server = start(SLEEP)
    relay.cut()
    threading.Timer(1.0, relay.restore).start()
    assert server.stop(10).code == 128 + signal.SIGTERM


@BREAKS_SOCKETS
def test_a_start_waits_for_a_docker_that_comes_back(relay: Relay, start: Start) -> None:
    start("pass").remove()
    relay.cut()
    threading.Timer(1.0, relay.restore).start()
    assert start(SLEEP).exited() is None


@BREAKS_SOCKETS
@pytest.mark.usefixtures("collected")
def test_a_docker_that_was_never_there_is_a_host_error_that_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    with pytest.raises(HostError, match="systemctl start docker"):
        DockerLauncher().resolve("python:3.11-slim")


@BREAKS_SOCKETS
def test_a_docker_that_does_not_come_back_is_a_host_error(
    relay: Relay, base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = DockerLauncher()
    launcher.resolve(base_image)
    relay.cut()
    monkeypatch.setattr("runner.launchers.daemon.BACK_S", 1.0)
    with pytest.raises(HostError, match="systemctl start docker"):
        launcher.resolve(base_image)
    relay.restore()
