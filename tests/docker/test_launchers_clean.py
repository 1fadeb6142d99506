"""Containers that dead runners left are removed; neighbours' and strangers' are not touched."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from click.testing import CliRunner

from runner.launchers.daemon import Daemon
from runner.owners import clean, owner
from runner.owners.clean import Finding, sweep_containers
from runner.owners.owner import Owner

pytestmark = pytest.mark.docker

TEST = f"runner-test-{uuid.uuid4().hex[:8]}"
WHOAMI = """
import dataclasses, json, sys
from runner.owners import owner
print(json.dumps(dataclasses.asdict(owner.here())), flush=True)
sys.stdin.read()
"""

Make = Callable[..., str]


def cli(*words: str) -> str:
    return subprocess.run(
        ["docker", *words], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def names() -> set[str]:
    return set(cli("ps", "-a", "--format", "{{.Names}}").split())


@pytest.fixture
def make(base_image: str) -> Iterator[Make]:
    """Return a way to make a running container with an owner's labels; return its name."""
    made: list[str] = []

    def _make(whose: Owner | None, *options: str, labels: dict[str, str] | None = None) -> str:
        name = f"{TEST}-{len(made)}-{uuid.uuid4().hex[:8]}"
        found = owner.labels(whose, experiment=TEST, run="r", cell="c", boot="0") if whose else {}
        words = [f"--label={key}={value}" for key, value in {**found, **(labels or {})}.items()]
        cli("run", "-d", "--init", "--name", name, *words, *options, base_image, "sleep", "600")
        made.append(name)
        return name

    yield _make
    for name in made:
        with suppress(subprocess.CalledProcessError):
            cli("rm", "-f", name)


@pytest.fixture
def neighbour() -> Iterator[Owner]:
    """Return the owner of another runner process, which lives through the test."""
    with subprocess.Popen(
        [sys.executable, "-c", WHOAMI], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        yield Owner(**json.loads(process.stdout.readline()))


@pytest.fixture
def dead() -> Owner:
    """Return the owner of a runner process that has ended."""
    said = subprocess.run(
        [sys.executable, "-c", WHOAMI], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    return Owner(**json.loads(said.stdout))


def swept(**more: bool) -> dict[str, Finding]:
    """Sweep, and return what concerns this module's containers by name."""
    return {
        found.name: found
        for found in sweep_containers(Daemon(), **more)
        if found.name.startswith(TEST)
    }


def test_only_what_a_dead_runner_left_is_removed(make: Make, dead: Owner, neighbour: Owner) -> None:
    ours = make(dead)
    living = make(neighbour)
    elsewhere = make(replace(dead, pid_namespace=1))
    other_machine = make(replace(dead, machine_boot="another"))
    stranger = make(None)
    odd = make(None, labels={"runner.owner.pid": "me", "runner.run": "x"})
    found = swept()
    assert {name: entry.verdict for name, entry in found.items()} == {
        ours: "dead",
        living: "alive",
        elsewhere: "unknown",
        other_machine: "unknown",
        odd: "unknown",
    }
    assert [name for name, entry in found.items() if entry.removed] == [ours]
    assert {living, elsewhere, other_machine, stranger, odd} <= names()
    assert ours not in names()


def test_a_container_that_ended_is_removed_too(make: Make, dead: Owner) -> None:
    ours = make(dead)
    cli("kill", ours)
    assert swept()[ours].removed
    assert ours not in names()


def test_looking_only_removes_nothing(make: Make, dead: Owner) -> None:
    ours = make(dead)
    found = swept(remove=False)[ours]
    assert (found.verdict, found.removed) == ("dead", False)
    assert ours in names()


@pytest.fixture
def inside(make: Make, dead: Owner) -> tuple[str, Owner]:
    """Return a container that stands for one with a runner in it, and that runner as an owner."""
    home = make(None)
    container = cli("inspect", home, "-f", "{{.Id}}")
    return home, replace(dead, pid_namespace=1, pid=1, container=container)


def test_a_runner_in_a_container_lives_as_long_as_that_does(
    make: Make, inside: tuple[str, Owner]
) -> None:
    home, whose = inside
    ours = make(whose)
    beside = make(replace(whose, pid=7))
    found = swept()
    assert (found[ours].verdict, found[beside].verdict) == ("alive", "unknown")
    cli("kill", home)
    assert swept()[ours].removed
    assert not {ours, beside} & names()
    assert home in names()


def test_a_runner_whose_container_was_removed_is_dead(
    make: Make, inside: tuple[str, Owner]
) -> None:
    home, whose = inside
    ours = make(whose)
    cli("rm", "-f", home)
    assert swept()[ours].removed


def test_a_runner_whose_container_was_started_again_since_is_dead(
    make: Make, inside: tuple[str, Owner]
) -> None:
    home, whose = inside
    ours = make(whose)
    cli("stop", "-t", "2", home)
    cli("start", home)
    assert swept()[ours].removed


def test_gpus_of_a_neighbour_are_told(make: Make, neighbour: Owner, base_image: str) -> None:
    name = f"{TEST}-gpus"
    labels = owner.labels(neighbour, experiment=TEST, run="r", cell="c", boot="0")
    words = [f"--label={key}={value}" for key, value in labels.items()]
    cli("create", "--name", name, "--gpus", '"device=GPU-a,GPU-b"', *words, base_image, "true")
    try:
        found = swept()[name]
        assert (found.verdict, found.gpus, found.running) == ("alive", ("GPU-a", "GPU-b"), False)
    finally:
        cli("rm", name)


def test_the_command_says_what_it_did(make: Make, dead: Owner, neighbour: Owner) -> None:
    ours, living = make(dead), make(neighbour)
    result = CliRunner().invoke(clean.command, ["--dry-run"])
    assert f"would remove container {ours} (experiment {TEST}" in result.output
    result = CliRunner().invoke(clean.command, [])
    assert f"removed container {ours}" in result.output
    assert f"left container {living}" in result.output
    assert result.exit_code == 0
