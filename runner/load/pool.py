"""The connections of one worker: opened ahead of need, handed out, taken back, thrown away."""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from typing import Final

from runner.load.connection import Address, Connection

_PROBE_LIMIT_S: Final = 2.0
_STALE_NS: Final = 2_000_000_000
"""Servers close idle connections after a few seconds (uvicorn after 5, also those that have carried
nothing yet): never use one that could be closing."""


def resolve(host: str, port: int) -> Address:
    """Return the first address of a host that answers, or its first when none does.

    `localhost` is often two addresses of which a server binds one.

    Raises:
        OSError: the name is unknown.
    """
    found = [
        (family, where)
        for family, _, _, _, where in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]
    for family, where in found if len(found) > 1 else ():
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PROBE_LIMIT_S)
            if probe.connect_ex(where) == 0:
                return family, where
    return found[0]


class Pool:
    """Open connections by file descriptor, and the idle ones among them.

    Attributes:
        reserve: idle connections to have at hand.
        opened: connections opened so far.
        failed: why the last connection could not be made, empty when it could.
    """

    __slots__ = (
        "_address",
        "_epoll",
        "_idle",
        "_name",
        "_opening",
        "_tls",
        "by_fd",
        "failed",
        "opened",
        "reserve",
    )

    def __init__(
        self, address: Address, name: str, tls: ssl.SSLContext | None, epoll: select.epoll
    ) -> None:
        self._address = address
        self._name = name
        self._tls = tls
        self._epoll = epoll
        self._idle: deque[Connection] = deque()
        self._opening = 0
        self.by_fd: dict[int, Connection] = {}
        self.reserve = 0
        self.opened = 0
        self.failed = ""

    def fill(self, most: int) -> None:
        """Begin to open up to `most` connections that the reserve lacks."""
        lacking = self.reserve - len(self._idle) - self._opening
        for _ in range(min(lacking, most)):
            if self.failed or not self._try():
                return

    def _try(self) -> bool:
        try:
            self.open()
        except OSError as error:
            self.failed = str(error)
        return not self.failed

    def filled(self) -> bool:
        """Return whether the reserve is there, or cannot be."""
        return not self._opening and (len(self._idle) >= self.reserve or bool(self.failed))

    def open(self) -> Connection:
        """Begin to open a connection.

        Raises:
            OSError: the server refused at once.
        """
        connection = Connection(self._address, self._tls, self._name)
        self.by_fd[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLOUT)
        self._opening += 1
        self.opened += 1
        return connection

    def go_on(self, connection: Connection) -> bool:
        """Go on opening a connection; return whether it is open now.

        Raises:
            OSError: it could not be opened; it is gone.
        """
        try:
            is_open = connection.shake()
        except OSError as error:
            self.failed = str(error)
            self.drop(connection)
            raise
        if is_open:
            self._opening -= 1
            self.failed = ""
        # a handshake waits for the server's bytes, and level-triggered OUT would spin meanwhile
        self._epoll.modify(connection.fd, select.EPOLLIN)
        return is_open

    def take(self, now_ns: int) -> Connection | None:
        """Return an idle connection that is surely alive, None when there is none."""
        while self._idle:
            connection = self._idle.pop()
            if connection.fd not in self.by_fd:
                continue
            if now_ns - connection.idle_since_ns < _STALE_NS:
                return connection
            self.drop(connection)
        return None

    def give_back(self, connection: Connection, now_ns: int) -> None:
        """Keep an open connection for later, also one that has carried nothing yet."""
        connection.idle_since_ns = now_ns
        self._idle.append(connection)

    def drop(self, connection: Connection) -> None:
        """Close a connection and forget it."""
        if self.by_fd.pop(connection.fd, None) is None:
            return
        if not connection.open:
            self._opening -= 1
        elif connection in self._idle:
            self._idle.remove(connection)
        self._epoll.unregister(connection.fd)
        connection.close()
