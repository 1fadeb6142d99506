"""Watches any load client from the wire: what a server's answers looked like while it ran."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.errors import RunnerError

if TYPE_CHECKING:
    from runner.load.wire.segments import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What the wire says of one client.

    Attributes:
        lines: (what, value) for a person.
        exit_code: how the client ended.
    """

    lines: tuple[tuple[str, str], ...]
    exit_code: int


def audited(words: Sequence[str], *, port: int, interface: str, one_in: int = 1) -> Audit:
    """Run a command while the port's traffic is recorded, and read what happened.

    Args:
        words: the command.
        port: the server's.
        interface: network interface that the traffic crosses.
        one_in: record one in so many connections.

    Raises:
        HostError: the kernel does not allow it.
    """
    from runner.load.wire import tapped

    with (
        tempfile.TemporaryDirectory(prefix="runner-audit-") as folder,
        tapped(Path(folder), port=port, interface=interface, one_in=one_in) as tap,
    ):
        began_s = time.monotonic()
        exit_code = subprocess.run(list(words), check=False).returncode
        took_s = time.monotonic() - began_s
    if tap.wire is None:
        raise RunnerError("The tap left nothing behind: this is a fault of the runner.")
    return Audit(lines=tuple(_lines(tap.wire, took_s, one_in)), exit_code=exit_code)


def _lines(wire: Wire, took_s: float, one_in: int) -> Iterator[tuple[str, str]]:
    from runner.load.census import census, mean_in_flight
    from runner.load.figures import figures

    found = census(wire.timelines)
    opened_ns, closed_ns = found.opened_ns or 0, found.last_ended_ns
    of = figures(wire.timelines, opened_ns=opened_ns, closed_ns=closed_ns, steady=None)
    yield "the command ran", f"{took_s:.1f} s"
    yield "requests on the wire", f"{of.requests}" + ("" if one_in == 1 else f" (1 in {one_in})")
    yield "outcomes", ", ".join(f"{n} {kind}" for kind, n in sorted(of.outcomes.items())) or "none"
    if not of.requests:
        return
    level = mean_in_flight(found.sent_ns, found.ended_ns, opened_ns, closed_ns)
    yield "first request to last answer", f"{of.duration_s:.2f} s"
    yield "mean in flight", f"{level:.1f}"
    yield "output tokens/s", f"{of.output_tokens_per_s or 0:.0f}"
    for name, quantiles in (("TTFT", of.ttft), ("ITL", of.itl), ("TPOT", of.tpot)):
        parts = {"p50": quantiles.p50_s, "p99": quantiles.p99_s, "max": quantiles.max_s}
        said = ", ".join(f"{word} {s * 1e3:.3f}" for word, s in parts.items() if s is not None)
        yield f"{name} in ms", said or "none"
    yield "clock error", f"{wire.clock_error_s * 1e6:.2f} us"
    if wire.lost or wire.full:
        full = " and its file was full" if wire.full else ""
        yield "NOT SEEN", f"the tap lost {wire.lost} packets{full}: use --one-in"


@click.command("audit", context_settings={"ignore_unknown_options": True})
@click.option("--port", type=int, required=True, help="The server's port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The server's address.")
@click.option("--interface", help="Network interface; found by the address where not given.")
@click.option(
    "--one-in",
    type=click.Choice(["1", "2", "4", "8", "16", "32"]),
    default="1",
    show_default=True,
    help="Record one in so many connections.",
)
@click.argument("words", nargs=-1, required=True, metavar="-- COMMAND", type=click.UNPROCESSED)
def command(
    *, port: int, host: str, interface: str | None, one_in: str, words: tuple[str, ...]
) -> None:
    """Run any load client and say what the wire saw, to hold beside what the client says.

    Every segment of the port is stamped by the kernel in a packet ring, which no client can be
    late for. It needs CAP_NET_RAW and plain HTTP. TTFT counts from a request's first segment.

    \b
    Example:
        runner audit --port 8000 -- vllm bench serve --port 8000 --model m
    """
    from runner.load.wire import interface_to

    try:
        found = audited(
            words, port=port, interface=interface or interface_to(host), one_in=int(one_in)
        )
    except RunnerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
    click.echo("\nOn the wire:")
    for what, value in found.lines:
        click.echo(f"  {what:30} {value}")
    sys.exit(1 if found.exit_code else 0)
