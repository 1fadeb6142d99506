"""The tap: a TPACKET_V3 ring (packet(7), Documentation/networking/packet_mmap.rst) into a file.

    python -m runner.load.wire.ring FILE INTERFACE PORT ONE_IN

Records until standard input closes. Blocks are written as the kernel filled them, each behind its
length; the file ends with a line of JSON about losses and clocks.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import select
import socket
import struct
import sys
from pathlib import Path
from typing import BinaryIO, Final

from runner.load.clocks import mapping
from runner.load.wire.filter import program

_SOL_PACKET: Final = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 5, 6, 10
_TPACKET_V3: Final = 2
_ETH_P_ALL: Final = 3
_SO_ATTACH_FILTER: Final = 26
_BLOCK_BYTES: Final = 4 << 20
_BLOCKS: Final = 32
_RETIRE_MS: Final = 50
_STATUS_AT: Final = 8
_USER: Final = 1
LIMIT_BYTES: Final = 4 << 30
"""The file grows no further; what came later is counted as lost."""


class Ring:
    """A packet ring over one interface, filtered to one server's port."""

    def __init__(self, interface: str, port: int, one_in: int) -> None:
        self._sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self._attach(program(port, loopback=interface == "lo", one_in=one_in))
        self._sock.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
        frame_bytes = 2048
        self._sock.setsockopt(
            _SOL_PACKET,
            _PACKET_RX_RING,
            struct.pack(
                "7I", _BLOCK_BYTES, _BLOCKS, frame_bytes, _BLOCK_BYTES // frame_bytes * _BLOCKS,
                _RETIRE_MS, 0, 0,
            ),
        )  # fmt: skip
        self._map = mmap.mmap(self._sock.fileno(), _BLOCK_BYTES * _BLOCKS)
        self._next = 0
        self._sock.bind((interface, _ETH_P_ALL))

    def _attach(self, instructions: list[tuple[int, int, int, int]]) -> None:
        code = b"".join(struct.pack("HBBI", *each) for each in instructions)
        buffer = ctypes.create_string_buffer(code)
        address = ctypes.addressof(buffer)
        self._sock.setsockopt(
            socket.SOL_SOCKET,
            _SO_ATTACH_FILTER,
            struct.pack("HxxxxxxQ", len(instructions), address),
        )

    def fileno(self) -> int:
        """Return the descriptor that is readable when a block is full."""
        return self._sock.fileno()

    def drain(self, file: BinaryIO, *, keep: bool) -> int:
        """Write (or throw away) the blocks that are full and hand them back; return their bytes."""
        written = 0
        while True:
            at = self._next * _BLOCK_BYTES
            (status,) = struct.unpack_from("I", self._map, at + _STATUS_AT)
            if not status & _USER:
                return written
            (length,) = struct.unpack_from("I", self._map, at + 20)
            if keep:
                file.write(struct.pack("I", length))
                file.write(memoryview(self._map)[at : at + length])
            written += length
            struct.pack_into("I", self._map, at + _STATUS_AT, 0)
            self._next = (self._next + 1) % _BLOCKS

    def lost(self) -> int:
        """Return how many packets found no room in the ring."""
        said = self._sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 12)
        return int(struct.unpack("III", said)[1])


def record(ring: Ring, file: BinaryIO) -> None:
    """Record until standard input closes, and 0.2 s longer for what is on its way."""
    poll = select.poll()
    poll.register(ring.fileno(), select.POLLIN)
    poll.register(0, select.POLLIN)
    clocks = [mapping(50)]
    written, ended, rounds_left = 0, False, 4
    while rounds_left:
        events = dict(poll.poll(50))
        if 0 in events and not ended and not os.read(0, 1):
            ended = True
            poll.unregister(0)
        written += ring.drain(file, keep=written < LIMIT_BYTES)
        rounds_left -= ended and ring.fileno() not in events
    clocks.append(mapping(50))
    told = {
        "lost": ring.lost(),
        "full": written >= LIMIT_BYTES,
        "offset_ns": clocks[0].offset_ns,
        "clock_error_ns": clocks[0].error_ns + abs(clocks[1].offset_ns - clocks[0].offset_ns),
    }
    file.write(struct.pack("I", 0) + json.dumps(told).encode())


def main() -> None:
    """Run the tap named on the command line."""
    path, interface, port, one_in = sys.argv[1:5]
    ring = Ring(interface, int(port), int(one_in))
    with Path(path).open("wb") as file:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        record(ring, file)


if __name__ == "__main__":
    main()
