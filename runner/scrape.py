"""`runner scrape`: what a log, of a file or of a container, says of the server that wrote it."""

from __future__ import annotations

import contextlib
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import click

from engines import Fact
from engines.causes import CATALOGUE as CAUSES
from engines.causes import explained
from engines.corpus_names import corpus_engine, corpus_facts
from engines.facts import CATALOGUE as FACTS
from engines.lexicon import lexicons
from engines.reading import Reader, Reading
from runner.errors import ExperimentError, HostError, RunnerError

BLOCK_BYTES: Final = 1 << 18
GZIP: Final = b"\x1f\x8b"
COLUMN: Final = 24
GIB: Final = 2**30


def scrape_chunks(chunks: Iterable[bytes], engine: str | None = None) -> Reading:
    """Return what a log says, read once in pieces cut anywhere."""
    reader = Reader(engine)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.close()


def scrape_file(path: Path, engine: str | None = None) -> Reading:
    """Return what a log file says; a gzip-compressed one is known by its first bytes.

    Raises:
        ExperimentError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return scrape_chunks(blocks(file), engine)
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror or error}. Give an existing log file."
        raise ExperimentError(said) from error


def scrape_container(name: str, engine: str | None = None) -> Reading:
    """Return what a container, running or not, has printed so far.

    Raises:
        HostError: Docker does not answer, or knows no such container.
    """
    from runner.launchers.daemon import Daemon, DaemonGone, Refused

    try:
        return scrape_chunks(Daemon().frames(name, follow=False), engine)
    except Refused as refused:
        hint = "`docker ps -a` lists the containers." if refused.status == 404 else ""
        raise HostError(
            f"The log of container {name} cannot be read: {refused} {hint}"
        ) from refused
    except DaemonGone as gone:
        raise HostError(str(gone)) from gone


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes of a log in blocks, decompressed where they are gzip.

    What of a compressed file is damaged or missing is left out; the rest still says something.
    """
    first = file.read(BLOCK_BYTES)
    if first.startswith(GZIP):
        with contextlib.suppress(zlib.error):
            yield from _unpacked(first, file)
        return
    while first:
        yield first
        first = file.read(BLOCK_BYTES)


def _unpacked(packed: bytes, file: BinaryIO) -> Iterator[bytes]:
    """Yield what gzip members in a row hold, never more than a block at once."""
    unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    while packed:
        yield unpack.decompress(packed, BLOCK_BYTES)
        if unpack.eof:
            packed = unpack.unused_data or file.read(BLOCK_BYTES)
            unpack = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        else:
            packed = unpack.unconsumed_tail or file.read(BLOCK_BYTES)


def as_object(reading: Reading) -> dict[str, Any]:
    """Return a reading as the JSON object that `--format json` prints.

    Facts bear the names and units of `engines.corpus_names`; what was not stated is absent.
    """
    return {
        "engine": corpus_engine(reading.engine, reading.facts),
        "version": reading.version,
        "outcome": reading.outcome,
        "cause": reading.cause,
        "phase": reading.phase,
        "evidence": list(reading.evidence),
        "facts": corpus_facts(reading.engine, reading.facts),
    }


def as_text(reading: Reading, source: str) -> str:
    """Return a reading as a table for people: the outcome, what to change, the server's facts."""
    engine = f"{reading.engine or 'engine unknown'} {reading.version or ''}".rstrip()
    lines = [f"{source}: {engine}, {reading.outcome}"]
    if reading.cause:
        origin = CAUSES[reading.cause].origin
        lines.append(f"  cause: {reading.cause} (phase {reading.phase}, origin {origin})")
        lines += [f"  | {line}" for line in reading.evidence]
        lines.append(f"  do: {explained(reading.cause, reading.facts)}")
    first = {fact.name: fact for fact in reversed(reading.facts)}
    names = [name for name in FACTS if name in first]
    lines += [f"  {name:<{COLUMN}} {_shown(first[name])}" for name in names]
    return "\n".join(lines)


def _shown(fact: Fact) -> str:
    unit, value, line = FACTS[fact.name].unit, fact.value, f"   line {fact.line}"
    if isinstance(value, bool):
        said = "yes" if value else "no"
    elif unit == "bytes" and not isinstance(value, str):
        said = f"{value / GIB:.2f} GiB"
    elif unit and isinstance(value, int):
        said = f"{value:,} {unit}"
    else:
        said = f"{value} {unit}".rstrip()
    return said + (line if fact.line else "")


def _inputs(
    files: tuple[str, ...], containers: tuple[str, ...], engine: str | None
) -> Iterator[tuple[str, Reading]]:
    for file in files:
        if file == "-":
            yield "standard input", scrape_chunks(blocks(sys.stdin.buffer), engine)
        else:
            yield file, scrape_file(Path(file), engine)
    for name in containers:
        yield name, scrape_container(name, engine)


@click.command(name="scrape")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--container", "containers", multiple=True, metavar="NAME", help="A container's log.")
@click.option(
    "--engine",
    type=click.Choice(sorted(lexicons())),
    help="The engine that wrote it; by default it is recognised.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json prints one object per input, each on its own line.",
)
def command(
    files: tuple[str, ...], containers: tuple[str, ...], engine: str | None, form: str
) -> None:
    """Say what engine logs say: KV capacity, limits, memory, times, and what a server died of.

    FILE may be gzip-compressed; - is standard input.

    \b
    runner scrape server.log
    docker logs server 2>&1 | runner scrape - --format json
    runner scrape --container server
    """
    if not files and not containers:
        raise click.UsageError("Give a FILE, - for standard input, or --container NAME.")
    try:
        for source, reading in _inputs(files, containers, engine):
            shown = json.dumps(as_object(reading)) if form == "json" else as_text(reading, source)
            click.echo(shown)
    except RunnerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
