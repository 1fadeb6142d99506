"""Whose a server is: the runner process that started it, and whether that one still lives.

A process is named by the machine's boot id, its PID namespace, its pid and its start time; a
runner inside a container also by that container. The judgement is pure and doubts rather than
guesses: what is not known to be dead is left alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Verdict = Literal["dead", "alive", "unknown"]

PREFIX: Final = "runner."
MARK: Final = f"{PREFIX}owner.pid"
"""The label by which containers of ours are looked up."""

_OWN_FILES: Final = re.compile(r"/containers/([0-9a-f]{64})/(?:hostname|resolv\.conf|hosts) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One runner process, told apart from every other on this machine.

    Attributes:
        machine_boot: the kernel's random boot id, the same in all containers of a machine.
        pid_namespace: inode number of the PID namespace that `pid` counts in.
        pid: process id.
        started_ticks: start time in clock ticks since the machine's boot (proc(5), field 22).
        container: id of the container it runs in; empty for none.
    """

    machine_boot: str
    pid_namespace: int
    pid: int
    started_ticks: int
    container: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the judging process sees of an owner.

    Attributes:
        machine_boot: boot id of the judging machine.
        pid_namespace: PID namespace of the judging process.
        older_than_boot: the owned thing was made on this machine before it booted.
        started_ticks: start time of the process that bears the owner's pid here; None when there
            is none, `hidden` when there is one that cannot be looked at.
        container: what became of the owner's container since the owned thing was made; None where
            it has none or nobody can tell.
    """

    machine_boot: str
    pid_namespace: int
    older_than_boot: bool
    started_ticks: int | Literal["hidden"] | None
    container: Literal["running", "ended"] | None


def judge(owner: Owner, seen: Evidence) -> Verdict:
    """Return whether a runner still lives; `unknown` unless the evidence decides it."""
    if owner.machine_boot != seen.machine_boot:
        return "dead" if seen.older_than_boot else "unknown"
    if owner.pid_namespace == seen.pid_namespace:
        if seen.started_ticks == "hidden":
            return "unknown"
        return "alive" if seen.started_ticks == owner.started_ticks else "dead"
    if seen.container == "ended":
        return "dead"
    # the first process of a container lives as long as the container; another may have ended
    return "alive" if seen.container == "running" and owner.pid == 1 else "unknown"


def here() -> Owner:
    """Return this process as an owner."""
    pid = os.getpid()
    ticks = started_ticks(pid)
    return Owner(
        machine_boot=machine_boot(),
        pid_namespace=pid_namespace(),
        pid=pid,
        started_ticks=ticks if isinstance(ticks, int) else 0,
        container=own_container(),
    )


def labels(owner: Owner, *, experiment: str, run: str, cell: str, boot: str) -> dict[str, str]:
    """Return the container labels that say whose a container is and what it is for."""
    return {
        f"{PREFIX}experiment": experiment,
        f"{PREFIX}run": run,
        f"{PREFIX}cell": cell,
        f"{PREFIX}boot": boot,
        f"{PREFIX}owner.machine_boot": owner.machine_boot,
        f"{PREFIX}owner.pid_namespace": str(owner.pid_namespace),
        f"{PREFIX}owner.pid": str(owner.pid),
        f"{PREFIX}owner.started_ticks": str(owner.started_ticks),
        f"{PREFIX}owner.container": owner.container,
    }


def of_labels(found: Mapping[str, str]) -> Owner | None:
    """Return the owner that labels name, None where they are not all there and well formed."""
    try:
        return Owner(
            machine_boot=found[f"{PREFIX}owner.machine_boot"],
            pid_namespace=int(found[f"{PREFIX}owner.pid_namespace"]),
            pid=int(found[f"{PREFIX}owner.pid"]),
            started_ticks=int(found[f"{PREFIX}owner.started_ticks"]),
            container=found[f"{PREFIX}owner.container"],
        )
    except (KeyError, ValueError):
        return None


def without_container(found: Mapping[str, str]) -> dict[str, str]:
    """Return labels for a daemon that does not know the runner's own container."""
    return {name: "" if name == f"{PREFIX}owner.container" else found[name] for name in found}


def machine_boot() -> str:
    """Return the kernel's random id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def machine_boot_s() -> float:
    """Return when this machine booted, in seconds since 1970 (proc(5), `btime`)."""
    lines = Path("/proc/stat").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("btime ")))


def pid_namespace() -> int:
    """Return the inode number of this process's PID namespace."""
    return Path("/proc/self/ns/pid").stat().st_ino


def started_ticks(pid: int, proc: Path = Path("/proc")) -> int | Literal["hidden"] | None:
    """Return the start time of process `pid` in clock ticks since boot.

    None when there is no such process; `hidden` when there is one that /proc does not show
    (hidepid), which must not pass for a dead one.
    """
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
        # the name before them, in parentheses, may hold anything
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        pass
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        return "hidden"
    return "hidden"


def own_container(mountinfo: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the id of the container this process runs in, empty for none.

    Docker mounts its own hostname and resolv.conf files into every container, and their path on
    the host holds the container's id.
    """
    try:
        found = _OWN_FILES.search(mountinfo.read_text())
    except OSError:
        return ""
    return found.group(1) if found else ""
