"""The Docker daemon as this project speaks to it. The only file that imports `docker`.

The SDK's many exceptions become two: `DaemonGone`, nobody answers, and `Refused`, an answer that
is an error. What is safe to ask twice waits out a restart of the daemon.
"""

from __future__ import annotations

import math
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import docker
import requests
import tenacity
import urllib3
from docker.errors import APIError, DockerException
from docker.types import DeviceRequest, LogConfig
from docker.types import Mount as DockerMount

from runner.launchers import Launch
from runner.launchers.docker_line import DROPPED, LOG_DRIVER, LOG_OPTIONS, NO_NEW_PRIVILEGES

T = TypeVar("T")

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
CALL_S: Final = 60
BACK_S: Final = 60.0
POLL_S: Final = 0.5


class DaemonGone(Exception):  # noqa: N818 - a state of the world
    """Docker does not answer; the message says why and what to type."""


class Late(DaemonGone):
    """Docker did not do in time what it was asked."""


class Refused(Exception):  # noqa: N818 - an answer
    """Docker answered with an error.

    Attributes:
        status: HTTP status; 404 what is named does not exist, 409 it is in another state.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Daemon:
    """Docker, reached as the `docker` command does: DOCKER_HOST, else the local socket.

    Nothing is asked before the first call. Every call raises `DaemonGone` or `Refused`.
    """

    def __init__(self) -> None:
        self._client: docker.APIClient | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is reached over a socket file, hence runs on this machine."""
        return bool(self._api().base_url.startswith("http+docker://"))

    @property
    def listens(self) -> bool:
        """Whether a daemon on this machine takes new calls; a leaving one still ends old ones."""
        try:
            _knock(os.environ.get("DOCKER_HOST") or DEFAULT_HOST)
        except OSError:
            return False
        return True

    def ask(self, call: Callable[[], T]) -> T:
        """Return `call()`, asked again for `BACK_S` while a daemon that once answered is gone."""
        again = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(DaemonGone),
            stop=lambda state: self._client is None or (state.seconds_since_start or 0.0) >= BACK_S,
            wait=tenacity.wait_fixed(POLL_S),
            reraise=True,
        )
        return again(call)

    def ping(self) -> None:
        """Return when the daemon answers."""
        with _spoken():
            self._api().ping()

    def image(self, reference: str) -> dict[str, Any]:
        """Return what Docker knows of an image."""
        with _spoken():
            return dict(self._api().inspect_image(reference))  # type: ignore[no-untyped-call]

    def architecture(self) -> str:
        """Return the machine's architecture, as `amd64`."""
        with _spoken():
            return str(self._api().version(api_version=False)["Arch"])

    def inspect(self, container: str) -> dict[str, Any]:
        """Return all that Docker knows of a container."""
        with _spoken():
            return dict(self._api().inspect_container(container))

    def create(self, launch: Launch, secrets: Mapping[str, str], network: str | None) -> str:
        """Create a container, not yet started; return its id."""
        with self._patient(launch.create_s) as api:
            created = api.create_container(
                image=launch.image,
                command=list(launch.argv),
                entrypoint=launch.entrypoint,
                name=launch.name,
                environment={**launch.env, **secrets},
                labels=dict(launch.labels),
                ports=[launch.port],
                host_config=api.create_host_config(**_host_config(launch, network)),
            )
            return str(created["Id"])

    def start(self, container: str, limit_s: float) -> None:
        """Start a container."""
        with self._patient(limit_s) as api:
            api.start(container)

    def pull(self, reference: str) -> Iterator[dict[str, Any]]:
        """Pull an image; yield Docker's progress events. An error among them is a refusal."""
        with _spoken():
            for event in self._api().pull(reference, stream=True, decode=True):
                if "error" in event:
                    raise Refused(500, str(event["error"]))
                yield event

    def wait(self, container: str) -> int:
        """Wait until a container runs no more; return its exit code."""
        with _spoken():
            return int(self._api().wait(container)["StatusCode"])

    def frames(self, container: str, *, follow: bool = True) -> Iterator[bytes]:
        """Yield a container's output from its first byte, as it comes; ends when it does.

        A frame is a line, or a piece of a very long one. Without `follow` it ends with what has
        been printed so far.
        """
        with _spoken():
            yield from self._api().logs(container, stream=True, follow=follow)

    def kill(self, container: str, signal: str) -> None:
        """Send a signal to a container's first process."""
        with _spoken():
            self._api().kill(container, signal)

    def remove(self, container: str) -> None:
        """Remove a container and its anonymous volumes, by force; one that is gone is fine."""
        try:
            with _spoken():
                self._api().remove_container(container, force=True, v=True)
        except Refused as refused:
            # 409: its removal is in progress already
            if refused.status not in {404, 409}:
                raise

    def labelled(self, label: str) -> list[dict[str, Any]]:
        """Return the containers, running or not, that bear a label."""
        with _spoken():
            return list(self._api().containers(all=True, filters={"label": [label]}))

    @contextmanager
    def _patient(self, limit_s: float) -> Iterator[docker.APIClient]:
        """Give a client that waits so long for an answer, and no longer."""
        with _spoken(limit_s):
            version = self._api().api_version
            own = docker.DockerClient.from_env(version=version, timeout=math.ceil(limit_s)).api
            try:
                yield own
            finally:
                own.close()

    def _api(self) -> docker.APIClient:
        if self._client is None:
            with _spoken():
                _knock(os.environ.get("DOCKER_HOST") or DEFAULT_HOST)
                self._client = docker.DockerClient.from_env(version="auto", timeout=CALL_S).api
        return self._client


def _knock(host: str) -> None:
    """Raise where nobody listens on a socket file: the SDK would leak its own socket then."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(host.removeprefix("unix://"))


def _host_config(launch: Launch, network: str | None) -> dict[str, Any]:
    return {
        "auto_remove": False,
        "cap_drop": list(DROPPED),
        "cpuset_cpus": launch.cpus,
        "device_requests": _device_requests(launch.gpus),
        "init": True,
        "ipc_mode": "host" if launch.host_ipc else None,
        "log_config": LogConfig(type=LOG_DRIVER, config=dict(LOG_OPTIONS)),
        "mem_limit": launch.memory_bytes,
        "mounts": [
            DockerMount(
                target=mount.target,
                source=str(mount.source),
                type="bind",
                read_only=mount.read_only,
            )
            for mount in launch.mounts
        ],
        "network_mode": network,
        "port_bindings": {launch.port: ("127.0.0.1", None)},
        "security_opt": [NO_NEW_PRIVILEGES],
        "shm_size": None if launch.host_ipc else launch.shm_bytes,
    }


def _device_requests(gpus: int | tuple[str, ...]) -> list[DeviceRequest]:
    if not gpus:
        return []
    which = {"count": gpus} if isinstance(gpus, int) else {"device_ids": list(gpus)}
    return [DeviceRequest(capabilities=[["gpu"]], **which)]


@contextmanager
def _spoken(limit_s: float = CALL_S) -> Iterator[None]:
    try:
        yield
    except requests.ReadTimeout as error:
        raise Late(f"Docker gave no answer within {limit_s:g} s") from error
    except APIError as error:
        raise Refused(error.status_code or 0, str(error.explanation or error)) from error
    except (
        DockerException,
        requests.RequestException,
        urllib3.exceptions.HTTPError,
        OSError,
        struct.error,  # the stream broke off inside a frame's header
    ) as error:
        raise DaemonGone(_why(str(error))) from error


def _why(error: str) -> str:
    if "Permission" in error:
        return (
            "Docker's socket may not be opened by this user; `sudo usermod -aG docker $USER` and "
            "log in again, or run this with sudo"
        )
    if "API version" in error:
        return f"this Docker is too old or too new for the Docker SDK ({error}); update Docker"
    return (
        f"Docker does not answer ({error}); it is not installed, not running, or somewhere else: "
        "try `docker info`, `sudo systemctl start docker`, or set DOCKER_HOST to what "
        "`docker context inspect -f '{{.Endpoints.docker.Host}}'` prints"
    )
