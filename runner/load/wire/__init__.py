"""A second clock that no client can be late for: the kernel's stamp of every segment on the wire.

A tap reads a packet ring (needs CAP_NET_RAW) and does nothing but write blocks down; afterwards the
segments are put together again and read as answers. Plain HTTP only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.errors import HostError
from runner.load import Timeline
from runner.load.wire.segments import Wire, read

_ROOT: Final = Path(__file__).resolve().parents[3]
_SIOCGIFADDR: Final = 0x8915


@dataclass(slots=True, kw_only=True)
class Tapped:
    """What a tap caught.

    Attributes:
        file: its blocks.
        wire: what was read from them, once the tap has ended.
    """

    file: Path
    wire: Wire | None = None

    def timelines(self) -> tuple[Timeline, ...]:
        """Return one timeline per request seen whole, in the order of their first segments.

        `sent_ns` is the stamp of a request's first segment, `chunk_ns` of the segments that
        completed each chunk.
        """
        return self.wire.timelines if self.wire else ()


@contextlib.contextmanager
def tapped(folder: Path, *, port: int, interface: str = "lo", one_in: int = 1) -> Iterator[Tapped]:
    """Record the TCP traffic of a server's port for as long as the context lasts.

    Args:
        folder: where the blocks are written.
        port: the server's.
        interface: network interface that the traffic crosses.
        one_in: record one in so many connections (a power of two).

    Raises:
        HostError: the kernel does not allow it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tap = Tapped(file=folder / "blocks")
    words = [str(tap.file), interface, str(port), str(one_in)]
    ring = subprocess.Popen(
        [sys.executable, "-m", "runner.load.wire.ring", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    try:
        _await(ring)
        yield tap
    finally:
        ring.communicate(timeout=60)
    tap.wire = read(tap.file, port)


def _await(ring: subprocess.Popen[bytes]) -> None:
    """Wait until the tap records."""
    line = ring.stdout.readline() if ring.stdout else b""
    if line.strip() == b"ready":
        return
    said = ring.communicate(timeout=60)[1].decode(errors="replace").strip().splitlines()
    raise HostError(
        f"The wire could not be tapped: {said[-1] if said else 'no reason given'}. It needs "
        "CAP_NET_RAW: run as root, or in Docker with --cap-add NET_RAW."
    )


def interface_to(host: str) -> str:
    """Return the network interface through which an IPv4 address is reached.

    Raises:
        HostError: there is no way to it, or none of the interfaces has the address it leads from.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
            ours = probe.getsockname()[0]
    except OSError as error:
        raise HostError(f"There is no way to {host}: {error}.") from error
    if ours == socket.gethostbyname(host):
        return "lo"
    for _, name in socket.if_nameindex():
        if ours == _address(name):
            return name
    raise HostError(f"No interface has the address {ours}; name one with --interface.")


def _address(name: str) -> str | None:
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])
