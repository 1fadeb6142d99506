"""One life of a simulated engine: it starts, phase by phase, serves, and ends as ordered."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import time

from engines.sim import serve
from engines.sim.dialect import Dialect
from engines.sim.say import say
from engines.sim.setup import RefusalError, Setup
from engines.sim.twin import Twin

ORPHAN_S = 60


def live(dialect: Dialect, twin: Twin) -> int:
    """Start, serve until told to stop, end; return the exit code.

    Raises:
        RefusalError: the start failed, in the engine's words.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    setup, simulate = twin.setup, twin.simulate
    mark = f"SIMULATED ENGINE: this is not {setup.engine} but a model of it"
    say(f"{mark} (GPU profile {simulate.gpu}, speed {simulate.speed:g})")
    _extras(twin)
    early = _bind(setup) if dialect.binds_first else None
    _start(dialect, twin)
    sock = early or _bind(setup)
    gc.freeze()
    warm_s = dialect.warm_share * startup_s(twin)
    return asyncio.run(serve.run(dialect, twin, sock, warm_s))


def _extras(twin: Twin) -> None:
    if twin.simulate.echo_environment:
        say(*[f"env {name}={value}" for name, value in os.environ.items()])
    if twin.simulate.orphan_child:
        program = [sys.executable, "-c", f"import time; time.sleep({ORPHAN_S})"]
        child = subprocess.Popen(program, start_new_session=True)
        say(f"started a child process that outlives this one (pid={child.pid})")


def _start(dialect: Dialect, twin: Twin) -> None:
    """Pass the phases of the start-up; each takes its share of the time, then speaks."""
    simulate, whole_s = twin.simulate, startup_s(twin)
    for phase in dialect.phases(twin):
        if phase.name == "weights":
            time.sleep(simulate.slow_start_s)
        if simulate.hang_at == phase.name:
            _hang()
        time.sleep(phase.share * whole_s)
        if phase.name == "start":
            say(*phase.lines)
        error = error_in(dialect, twin, phase.name)
        if error is not None:
            raise RefusalError("\n".join(dialect.failed_start(twin, error)))
        if phase.name != "start":
            say(*phase.lines)


def error_in(dialect: Dialect, twin: Twin, phase: str) -> str | None:
    """Return the exception that ends a phase of the start-up, None where it passes."""
    if twin.simulate.crash_at == phase:
        return dialect.crash(twin, phase)
    return dialect.failure(twin, phase)


def startup_s(twin: Twin) -> float:
    """Return how long the start-up takes, as ordered or by the GPU's profile."""
    if twin.simulate.startup_s is not None:
        return twin.simulate.startup_s
    cold_s = twin.overheads.cold_ready_s if twin.cold else 0.0
    return (twin.overheads.ready_s + cold_s) / twin.simulate.speed


def _hang() -> None:
    while True:
        time.sleep(3600)


def _bind(setup: Setup) -> socket.socket:
    family = socket.AF_INET6 if ":" in setup.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that name their protocol
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((setup.host, setup.port))
    except OSError as error:
        raise RefusalError(_bind_error(setup, error)) from error
    return sock


def _bind_error(setup: Setup, error: OSError) -> str:
    if setup.engine == "vllm":
        return f"    sock.bind(addr)\nOSError: [Errno {error.errno}] {error.strerror}"
    reason = (error.strerror or "").lower()
    return (
        f"ERROR:    [Errno {error.errno}] error while attempting to bind on address "
        f"('{setup.host}', {setup.port}): {reason}"
    )
