"""A Docker daemon of the campaign's own, stopped and started while a boot is loaded.

It lives in a network namespace of its own, which the runner joins; the machine's own daemon and
its networks are not touched.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.docker.campaign.bed import Bed
from tests.docker.campaign.faults import LONG, Outcome, Scene

CLONE_NEWNET: Final = 0x40000000
SIMULATED: Final = "FROM {base}\nCOPY engines /opt/source/engines\nENV PYTHONPATH=/opt/source\n"
CONTAINERD: Final = """
version = 2
root = "{folder}/ct-root"
state = "{folder}/ct-state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/ct.sock"
"""


class OwnDaemon:
    """A Docker daemon beside the machine's own, with a bridge that only its namespace sees."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/docker.sock"
        self._log = (folder / "log").open("wb")
        self._holder = self._run("unshare", "--net", "sleep", "infinity")
        self.namespace = f"/proc/{self._holder.pid}/ns/net"
        _wait_until(lambda: Path(self.namespace).readlink() != Path("/proc/self/ns/net").readlink())
        self._run(*self._within, "ip", "link", "set", "lo", "up").wait()
        config = folder / "containerd.toml"
        config.write_text(CONTAINERD.format(folder=folder))
        self._containerd = self._run("containerd", "-c", str(config))
        _wait_until((folder / "ct.sock").exists)

    @property
    def _within(self) -> tuple[str, ...]:
        return ("nsenter", f"--net={self.namespace}")

    def up(self, *options: str) -> None:
        """Start the daemon; return when it answers."""
        self._daemon = self._run(
            *self._within,
            "dockerd",
            f"--containerd={self.folder}/ct.sock",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/pid",
            f"--host={self.host}",
            "--bip=172.31.99.1/24",
            "--iptables=false",
            *options,
        )
        _wait_until(self._answers)

    def down(self, number: signal.Signals) -> None:
        """End the daemon by a signal."""
        self._daemon.send_signal(number)
        self._daemon.wait(60)

    def load(self, image: str) -> None:
        """Take over an image of the machine's own daemon."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            loaded = ["docker", "-H", self.host, "load"]
            subprocess.run(loaded, stdin=saved.stdout, check=True, capture_output=True, timeout=600)

    def close(self) -> None:
        """End everything of it."""
        self.down(signal.SIGTERM)
        for process in (self._containerd, self._holder):
            process.terminate()
            process.wait(60)
        self._log.close()

    def _answers(self) -> bool:
        asked = ["docker", "-H", self.host, "version"]
        return subprocess.run(asked, check=False, capture_output=True).returncode == 0

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(words, stdout=self._log, stderr=self._log)


@contextmanager
def own_daemon(base: str) -> Iterator[tuple[OwnDaemon, str]]:
    """Run a daemon that has an image of the simulated engine; give both."""
    folder = Path(tempfile.mkdtemp(prefix="rt-", dir="/var/tmp"))
    image, root = "runner-test-simulated:latest", Path(__file__).parents[3]
    (folder / "Dockerfile").write_text(SIMULATED.format(base=base))
    build = ["docker", "build", "-q", "-t", image, "-f", str(folder / "Dockerfile"), str(root)]
    subprocess.run(build, check=True, capture_output=True, timeout=600)
    daemon = OwnDaemon(folder)
    try:
        daemon.up()
        daemon.load(image)
        yield daemon, image
    finally:
        daemon.close()
        unmount = ["umount", str(folder / "data")]
        while subprocess.run(unmount, check=False, capture_output=True).returncode == 0:
            pass
        shutil.rmtree(folder, ignore_errors=True)


def joins(namespace: str) -> Callable[[], None]:
    """Return what makes a process join a network namespace."""
    return functools.partial(_join, namespace)


def restarted(daemon: OwnDaemon, image: str, folder: Path, *, lives: bool) -> Outcome:
    """Stop and start the daemon while the first of two boots is loaded; return what is seen.

    Args:
        daemon: it.
        image: of the simulated engine.
        folder: an empty folder.
        lives: containers live on without the daemon.
    """
    options = ("--live-restore",) if lives else ()
    daemon.down(signal.SIGTERM)
    daemon.up(*options)
    bed = Bed(folder=folder, image=image, keys={**LONG, "boots": 2})
    host = {"DOCKER_HOST": daemon.host}
    os.environ.update(host)
    try:
        under_way = bed.exec(prepare=joins(daemon.namespace), environment=host)
        under_way.until("random@c1")
        time.sleep(0.3)
        daemon.down(signal.SIGTERM)
        daemon.up(*options)
        return Scene(bed=bed, says="2 of 2 boots stored").seen(under_way)
    finally:
        del os.environ["DOCKER_HOST"]


def _join(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(namespace).open() as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _wait_until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not true():
        if time.monotonic() > deadline_s:
            raise TimeoutError("it did not come true")
        time.sleep(0.05)
