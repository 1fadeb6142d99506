"""Finds what runners left behind and removes it where its owner is known to be dead.

Never by name or image: a container counts as ours by its labels, a process by the note that its
launcher made of it. What lives, what is a stranger's and what cannot be judged stays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from runner.errors import HostError
from runner.launchers import trail
from runner.launchers.trail import Trail
from runner.owners import owner
from runner.owners.owner import Evidence, Owner, Verdict

if TYPE_CHECKING:
    from runner.launchers.daemon import Daemon


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A server that some runner started.

    Attributes:
        kind: a container or the processes of a local server.
        name: its name.
        purpose: experiment, run and boot it is for.
        verdict: whether its runner lives.
        by_hand: the command that removes it.
        removed: it was removed now.
        gpus: UUIDs or number of the GPUs it was given.
        running: it runs, or ran until it was removed.
    """

    kind: Literal["container", "process"]
    name: str
    purpose: str
    verdict: Verdict
    by_hand: str
    removed: bool = False
    gpus: int | tuple[str, ...] = 0
    running: bool = True


def sweep_local(trails: Path | None = None, *, remove: bool = True) -> Iterator[Finding]:
    """Yield the local servers of this user's runners, those of dead ones removed before.

    Args:
        trails: folder of the launcher's notes, None for this user's own.
        remove: remove what is known to be dead's; else only look.
    """
    folder = trails or trail.folder()
    for noted in trail.trails(folder):
        found = _local(noted)
        if not any(noted.members()):
            noted.erase(folder)
        elif not (remove and found.verdict == "dead"):
            yield found
        elif left := noted.end(sure=True):
            by_hand = f"kill -9 {' '.join(map(str, left))}"
            yield replace(found, verdict="unknown", by_hand=by_hand)
        else:
            noted.erase(folder)
            yield replace(found, removed=True)


def sweep_containers(daemon: Daemon, *, remove: bool = True) -> Iterator[Finding]:
    """Yield the containers of runners, running or not, those of dead ones removed before.

    Raises:
        HostError: Docker does not answer or cannot remove one.
    """
    from runner.launchers.daemon import DaemonGone, Refused

    try:
        for listed in daemon.ask(lambda: daemon.labelled(owner.MARK)):
            made = _inspected(daemon, listed["Id"])
            if made is not None:
                yield _swept(daemon, made, remove=remove)
    except (DaemonGone, Refused) as error:
        raise HostError(str(error)) from error


def _local(noted: Trail) -> Finding:
    whose = owner.of_labels(noted.labels)
    seen = None if whose is None else _evidence(whose, container=None, older_than_boot=False)
    return Finding(
        kind="process",
        name=noted.name,
        purpose=_purpose(noted.labels),
        verdict="unknown" if whose is None or seen is None else owner.judge(whose, seen),
        by_hand=f"kill -9 -- -{noted.group}",
    )


def _swept(daemon: Daemon, made: Mapping[str, Any], *, remove: bool) -> Finding:
    found = _container(daemon, made)
    if not (remove and found.verdict == "dead"):
        return found
    daemon.remove(made["Id"])
    return replace(found, removed=True)


def _container(daemon: Daemon, made: Mapping[str, Any]) -> Finding:
    labels, name = made["Config"]["Labels"], made["Name"].removeprefix("/")
    created_s = _seconds(made["Created"])
    whose = owner.of_labels(labels)
    verdict: Verdict = "unknown"
    if whose is not None:
        older = daemon.is_local and created_s < owner.machine_boot_s()
        fate = _fate(daemon, whose.container, created_s)
        verdict = owner.judge(whose, _evidence(whose, container=fate, older_than_boot=older))
    return Finding(
        kind="container",
        name=name,
        purpose=_purpose(labels),
        verdict=verdict,
        by_hand=f"docker rm -f {name}",
        gpus=_gpus(made),
        running=made["State"]["Status"] not in {"created", "exited", "dead"},
    )


def _evidence(
    whose: Owner, *, container: Literal["running", "ended"] | None, older_than_boot: bool
) -> Evidence:
    return Evidence(
        machine_boot=owner.machine_boot(),
        pid_namespace=owner.pid_namespace(),
        older_than_boot=older_than_boot,
        started_ticks=owner.started_ticks(whose.pid),
        container=container,
    )


def _fate(daemon: Daemon, container: str, since_s: float) -> Literal["running", "ended"] | None:
    """Return what became of a runner's container since it made something at `since_s`."""
    if not container:
        return None
    found = _inspected(daemon, container)
    if found is None or found["State"]["Status"] in {"created", "exited", "dead"}:
        return "ended"
    restarted = _seconds(found["State"]["StartedAt"]) > since_s
    return "ended" if restarted else "running"


def _inspected(daemon: Daemon, container: str) -> dict[str, Any] | None:
    from runner.launchers.daemon import Refused

    try:
        return daemon.ask(lambda: daemon.inspect(container))
    except Refused as refused:
        if refused.status == 404:
            return None
        raise


def _gpus(made: Mapping[str, Any]) -> int | tuple[str, ...]:
    requests = made["HostConfig"].get("DeviceRequests") or ()
    uuids = tuple(uuid for request in requests for uuid in request.get("DeviceIDs") or ())
    return uuids or sum(int(request.get("Count") or 0) for request in requests)


def _seconds(stamp: str) -> float:
    """Return Docker's `2026-01-02T03:04:05.123456789Z` in seconds since 1970."""
    whole, _, fraction = stamp.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


def _purpose(labels: Mapping[str, str]) -> str:
    parts = ("experiment", "run", "boot")
    return ", ".join(f"{part} {labels.get(owner.PREFIX + part, '?')}" for part in parts)


def told(found: Finding) -> str:
    """Return a finding as a sentence."""
    what = f"{found.kind} {found.name} ({found.purpose})"
    match found.verdict:
        case "dead":
            return f"{'removed' if found.removed else 'would remove'} {what}: its runner is gone"
        case "alive":
            return f"left {what}: its runner lives"
        case "unknown":
            return f"left {what}: cannot tell whether its runner lives; `{found.by_hand}`"


@click.command("clean")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, remove nothing.")
def command(*, dry_run: bool) -> None:
    """Remove the containers and local servers that dead runners left behind.

    Only what bears our labels or notes and whose runner is known to be gone.

    \b
    Example:
        runner clean --dry-run
    """
    from runner.launchers.daemon import Daemon

    try:
        found = False
        for finding in chain(
            sweep_local(remove=not dry_run), sweep_containers(Daemon(), remove=not dry_run)
        ):
            click.echo(told(finding))
            found = True
        if not found:
            click.echo("nothing that runners started is here")
    except HostError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
