"""A container through a restart of a real Docker daemon, one of this test's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.launchers import Launch
from runner.launchers.docker import DockerLauncher

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("containerd") is None,
        reason="starting a Docker daemon needs root, dockerd and containerd",
    ),
    # the SDK leaves broken sockets to the collector, which warns of them
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

COUNT = "import time\nfor n in range(10_000): print(n, flush=True); time.sleep(0.02)"
CONTAINERD = """
version = 2
root = "{folder}/ct-root"
state = "{folder}/ct-state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/ct.sock"
"""


def wait_until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.05)


class OwnDaemon:
    """A Docker daemon beside the machine's own, without networks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/docker.sock"
        config = folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=folder))
        self._log = (folder / "log").open("wb")
        self._containerd = self._run("containerd", "-c", str(config))
        wait_until((folder / "ct.sock").exists)

    def up(self, *options: str) -> None:
        # without a namespace of its own it would remove the docker0 of the machine's daemon
        self._daemon = self._run(
            "unshare",
            "--net",
            "dockerd",
            f"--containerd={self.folder}/ct.sock",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/pid",
            f"--host={self.host}",
            "--bridge=none",
            "--iptables=false",
            *options,
        )
        wait_until(lambda: self.cli("version").returncode == 0)

    def down(self, number: signal.Signals) -> None:
        self._daemon.send_signal(number)
        self._daemon.wait(60)

    def close(self) -> None:
        self.down(signal.SIGTERM)
        self._containerd.terminate()
        self._containerd.wait(60)
        self._log.close()

    def cli(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["docker", "-H", self.host, *words], check=False, capture_output=True, timeout=120
        )

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, stdout=self._log, stderr=self._log)


@pytest.fixture(scope="module")
def own(base_image: str) -> Iterator[OwnDaemon]:
    # pytest's own folders have paths too long for a socket
    folder = Path(tempfile.mkdtemp(prefix="rt-", dir="/var/tmp"))
    daemon = OwnDaemon(folder)
    daemon.up()
    with subprocess.Popen(["docker", "save", base_image], stdout=subprocess.PIPE) as saved:
        loaded = ["docker", "-H", daemon.host, "load"]
        subprocess.run(loaded, stdin=saved.stdout, check=True, capture_output=True, timeout=300)
    yield daemon
    daemon.close()
    # a daemon that was killed leaves its mounts
    while (
        subprocess.run(["umount", folder / "data"], check=False, capture_output=True).returncode
        == 0
    ):
        pass
    shutil.rmtree(folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("keeps", [False, True], ids=["containers-end", "containers-live-on"])
def test_a_daemon_that_is_back_loses_no_line_and_no_end(
    own: OwnDaemon,
    base_image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    keeps: bool,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", own.host)
    options = ("--live-restore",) if keeps else ()
    own.down(signal.SIGTERM)
    own.up(*options)
    log = tmp_path / "log"
    argv = ("python3", "-c", COUNT)
    launch = Launch(name="own", image=base_image, argv=argv, port=8000, labels={"runner.test": "1"})
    server = DockerLauncher().start(launch, log)
    wait_until(lambda: log.read_bytes().count(b"\n") > 20)
    own.down(number)
    seen = log.read_bytes().count(b"\n")
    own.up(*options)
    if keeps:
        wait_until(lambda: log.read_bytes().count(b"\n") > seen + 50)
        assert server.exited() is None
    else:
        wait_until(lambda: server.exited() is not None)
    how = server.stop(10)
    assert (how.daemon_lost, how.removed) == (True, False)
    server.remove()
    lines = log.read_text().split()
    assert lines == [str(line) for line in range(len(lines))]
    assert own.cli("ps", "-aq").stdout == b""
