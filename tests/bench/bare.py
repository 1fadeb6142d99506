"""The least a Python client can do: wait, read, stamp, keep. What it costs is nobody's to save."""

from __future__ import annotations

import gc
import select
import socket
import time
from typing import Any

from runner.load.clocks import SO_TIMESTAMPNS, STAMP_SPACE_BYTES
from runner.load.golden.process import Golden, golden_ask


def cpu_per_token_s(golden: Golden, streams: int, requests: int, tokens: int) -> float:
    """Drive a golden server with a loop that parses nothing; return its CPU time a token."""
    ask = golden_ask(0, output_tokens=tokens)
    request = b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(ask.body)
    request += ask.body
    epoll, clock, kept = select.epoll(), time.monotonic_ns, dict[int, list[Any]]()
    socks = [socket.create_connection(("127.0.0.1", golden.port)) for _ in range(streams)]
    by_fd = {sock.fileno(): sock for sock in socks}
    for sock in socks:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        sock.setblocking(False)
        epoll.register(sock.fileno(), select.EPOLLIN)
        kept[sock.fileno()] = []
    gc.disable()
    from_ns, left, waiting = time.process_time_ns(), requests - streams, streams
    for sock in socks:
        sock.send(request)
    while waiting:
        for fd, _ in epoll.poll():
            data, stamp, _, _ = by_fd[fd].recvmsg(1 << 16, STAMP_SPACE_BYTES)
            kept[fd].append((clock(), stamp, data))
            if data.endswith(b"0\r\n\r\n"):
                kept[fd] = []
                if left:
                    by_fd[fd].send(request)
                left, waiting = left - 1, waiting - (left <= 0)
    used_ns = time.process_time_ns() - from_ns
    gc.enable()
    for sock in socks:
        sock.close()
    return used_ns / 1e9 / (requests * tokens)
