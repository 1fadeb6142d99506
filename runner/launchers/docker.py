"""Servers in containers: images resolved, containers started, nothing left of failed starts."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from runner.errors import HostError
from runner.launchers import NO_PULL, Image, Launch, LaunchError, Pulling
from runner.launchers.container import Address, DockerServer
from runner.launchers.daemon import Daemon, DaemonGone, Late, Refused
from runner.launchers.log import LogFile
from runner.launchers.process import secret_values
from runner.launchers.pull import pull
from runner.owners.owner import own_container, without_container

CONNECT_S: Final = 1.0

REASONS: Final = {
    "could not select device driver": (
        "docker_failed",
        (
            "Docker has no GPU runtime: install nvidia-container-toolkit, then `sudo nvidia-ctk "
            "runtime configure --runtime=docker && sudo systemctl restart docker`"
        ),
    ),
    "unsatisfied condition": ("driver_mismatch", "the image needs a newer NVIDIA driver"),
    "nvidia-container-cli": ("docker_failed", "look whether `nvidia-smi -L` lists that GPU"),
    "no such image": ("image_missing", "pull it, or correct its name"),
    "is already in use by container": (
        "docker_failed",
        "`runner clean` removes what we left; anything else is `docker rm`'s to remove",
    ),
    "bind source path does not exist": (
        "launch_failed",
        "create that folder; where the runner is in a container, it must exist on the host",
    ),
    "port is already allocated": ("port_in_use", "stop what listens there"),
    "address already in use": ("port_in_use", "stop what listens there"),
    "executable file not found": ("launch_failed", "the image holds no such program"),
    "no such file or directory": ("launch_failed", "the image holds no such program"),
    "exec format error": ("launch_failed", "the image is for another architecture"),
}
"""Docker's words -> the cause they mean and what to do."""


class DockerLauncher:
    """Starts containers; one object may start many."""

    def __init__(self, daemon: Daemon | None = None) -> None:
        self.daemon = daemon or Daemon()

    def resolve(self, image: str, pulling: Pulling = NO_PULL) -> Image:
        """Return the digest that an image reference stands for on this machine.

        Raises:
            HostError: it cannot be had, is for another processor, or Docker does not answer.
        """
        if pulling.when == "always" or (pulling.when == "missing" and not self._holds(image)):
            pull(self.daemon, image, pulling)
        try:
            found = self.daemon.ask(lambda: self.daemon.image(image))
            machine = self.daemon.ask(self.daemon.architecture)
        except DaemonGone as error:
            raise HostError(str(error)) from error
        except Refused as error:
            raise HostError(_no_image(image, error)) from error
        if found.get("Architecture", machine) != machine:
            raise HostError(
                f"image {image} is for {found['Architecture']} and this machine is {machine}; "
                f"`docker pull --platform linux/{machine} {image}` fetches the right one"
            )
        return Image(reference=image, digest=_digest(image, found))

    def _holds(self, image: str) -> bool:
        """Whether the image is on this machine; where nobody can tell, it counts as that."""
        try:
            self.daemon.ask(lambda: self.daemon.image(image))
        except Refused as refused:
            return refused.status != 404
        except DaemonGone as error:
            raise HostError(str(error)) from error
        return True

    def start(self, launch: Launch, log: Path) -> DockerServer:
        """Create and start a container, and follow its output into the file `log`.

        Raises:
            LaunchError: it could not be created or started; nothing is left of it.
        """
        with ExitStack() as undo:
            secrets = secret_values(launch.secrets, os.environ)
            out = LogFile(log, secrets=secrets)
            undo.callback(out.close)
            with _phase("create"):
                self.daemon.ask(self.daemon.ping)
                inside = self.daemon.ask(self._inside)
                if inside is None:
                    launch = replace(launch, labels=without_container(launch.labels))
                undo.callback(self._discard, launch)
                container = self.daemon.create(launch, secrets, _network(inside))
            with _phase("start"):
                out.started_now()
                self.daemon.start(container, launch.start_s)
                server = DockerServer(self.daemon, container, out)
                server.at(_address(self.daemon.inspect(container), launch.port, inside))
            undo.pop_all()
            return server

    def create_only(self, launch: Launch) -> dict[str, Any]:
        """Create a container without starting it, remove it, return what Docker made of it.

        Raises:
            LaunchError: it could not be created.
        """
        secrets = secret_values(launch.secrets, os.environ)
        with ExitStack() as undo, _phase("create"):
            undo.callback(self._discard, launch)
            return self.daemon.inspect(self.daemon.create(launch, secrets, None))

    def _inside(self) -> dict[str, Any] | None:
        """Return the container that this process runs in, where this daemon knows it."""
        own = own_container()
        if not own:
            return None
        with suppress(Refused):
            return self.daemon.inspect(own)
        return None

    def _discard(self, launch: Launch) -> None:
        """Remove what a start that failed left: the container of that name with those labels."""
        try:
            found = self.daemon.ask(lambda: self.daemon.inspect(launch.name))
            if found["Config"]["Labels"] == dict(launch.labels):
                self.daemon.ask(lambda: self.daemon.remove(found["Id"]))
        except Refused:
            return
        except DaemonGone as error:
            raise HostError(f"{error}; then look for container {launch.name}") from error


@contextmanager
def _phase(phase: str) -> Iterator[None]:
    """Turn Docker's answers into launch errors of a phase."""
    try:
        yield
    except Late as error:
        raise LaunchError(phase, "stuck", f"to {phase} a container: {error}") from error
    except DaemonGone as error:
        raise LaunchError(phase, "docker_failed", str(error)) from error
    except Refused as error:
        words = str(error)
        for fragment, (cause, advice) in REASONS.items():
            if fragment in words.lower():
                raise LaunchError(phase, cause, f"{words}: {advice}") from error
        raise LaunchError(phase, "docker_failed", words) from error


def _no_image(image: str, error: Refused) -> str:
    if error.status == 404:
        return f"image {image} is not on this machine; `docker pull {image}`, or correct its name"
    return f"image {image}: {error}"


def _digest(image: str, found: Mapping[str, Any]) -> str:
    """Return the digest under the repository that was named, else any, else the image's id."""
    digests = sorted(found.get("RepoDigests") or ())
    name = image.partition("@")[0].removeprefix("docker.io/")
    of_name = [digest for digest in digests if name.startswith(digest.partition("@")[0])]
    return str([*of_name, *digests, found["Id"]][0])


def _network(inside: Mapping[str, Any] | None) -> str | None:
    """Return the network that this process's own container is in, None for Docker's default."""
    if inside is None or _uses_host(inside):
        return None
    return next(iter(inside["NetworkSettings"]["Networks"]), None)


def _uses_host(inside: Mapping[str, Any]) -> bool:
    return bool(inside["HostConfig"]["NetworkMode"] == "host")


def _address(found: Mapping[str, Any], port: int, inside: Mapping[str, Any] | None) -> Address:
    """Return the container's own address where it can be reached, else its published port.

    Raises:
        LaunchError: neither can be reached from the container that this process is in.
    """
    networks = found["NetworkSettings"]["Networks"].values()
    own = next((network["IPAddress"] for network in networks if network["IPAddress"]), "")
    if own and reachable(own, port):
        return Address(host=own, port=port, way="container")
    if own and inside is not None and not _uses_host(inside):
        raise LaunchError(
            "start",
            "docker_failed",
            f"the engine's address {own} cannot be reached from the runner's own container; start "
            "that one with `--network host`, or in a network that engines may join",
        )
    bound = (found["NetworkSettings"]["Ports"] or {}).get(f"{port}/tcp") or [{"HostPort": 0}]
    return Address(host="127.0.0.1", port=int(bound[0]["HostPort"]), way="published")


def reachable(host: str, port: int) -> bool:
    """Return whether a host answers here; a refusal is an answer: nothing listens there yet."""
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True
