"""Start a simulated engine: `python -m engines.sim vllm|sglang [--simulate JSON] FLAGS`."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import signal
import socket
import sys
import time
from collections.abc import Sequence

from engines.sim import options, profile, serve
from engines.sim.dialect import Dialect
from engines.sim.options import Simulate
from engines.sim.say import say
from engines.sim.setup import RefusalError, Setup
from engines.sim.sglang.dialect import Sglang
from engines.sim.twin import Twin, twin_of
from engines.sim.vllm.dialect import Vllm

DIALECTS: dict[str, type[Vllm] | type[Sglang]] = {"vllm": Vllm, "sglang": Sglang}
_USAGE = "usage: python -m engines.sim vllm|sglang [--simulate JSON] [--speed X] FLAGS..."


def main(argv: Sequence[str]) -> int:
    """Start what `argv` names; return the exit code."""
    if not argv or argv[0] not in DIALECTS:
        sys.stderr.write(_USAGE + "\n")
        return 2
    try:
        simulate, flags = _own(argv[1:])
        gpu = profile.load(simulate.gpu)
    except ValueError as error:
        sys.stderr.write(f"{_USAGE}\nengines.sim: error: {error}\n")
        return 2
    dialect = DIALECTS[argv[0]]()
    try:
        setup, shape = dialect.setup(flags, simulate, gpu)
        return _live(dialect, twin_of(setup, simulate, gpu, shape))
    except RefusalError as refusal:
        say(refusal.lines)
        return refusal.code


def _own(argv: Sequence[str]) -> tuple[Simulate, list[str]]:
    """Take our own two flags out of the engine's."""
    simulate, rest, words = Simulate(), [], list(argv)
    speed: float | None = None
    while words:
        word, equals, value = words.pop(0).partition("=")
        if word not in ("--simulate", "--speed"):
            rest.append(word + equals + value)
            continue
        value = value if equals else words.pop(0) if words else ""
        if word == "--simulate":
            simulate = options.read(value)
        else:
            speed = float(value)
    return (simulate if speed is None else dataclasses.replace(simulate, speed=speed)), rest


def _live(dialect: Dialect, twin: Twin) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    setup = twin.setup
    mark = f"SIMULATED ENGINE: this is not {setup.engine} but a model of it"
    say(f"{mark} (GPU profile {twin.simulate.gpu}, speed {twin.simulate.speed:g})")
    bound = _bind(setup) if dialect.binds_first else None
    startup_s = twin.simulate.startup_s
    if startup_s is None:
        startup_s = _profile_startup_s(twin)
    for phase in dialect.phases(twin):
        time.sleep(phase.share * startup_s)
        say(*phase.lines)
    sock = bound or _bind(setup)
    gc.freeze()
    asyncio.run(serve.run(dialect, twin, sock))
    return 0


def _profile_startup_s(twin: Twin) -> float:
    overheads = twin.overheads
    whole_s = overheads.ready_s + (overheads.cold_ready_s if twin.cold else 0.0)
    return whole_s / twin.simulate.speed


def _bind(setup: Setup) -> socket.socket:
    family = socket.AF_INET6 if ":" in setup.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
