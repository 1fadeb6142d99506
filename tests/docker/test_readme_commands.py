"""The README's two commands on a clean machine: Debian's own Python, root, and no Docker inside."""

from __future__ import annotations

import ast
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

Shell = Callable[[str], subprocess.CompletedProcess[str]]


def command(ending: str) -> str:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("python3 -m venv") and ending in line)


def pip_options() -> list[str]:
    """Return what hands this machine's pip settings to a container, with the files they name."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True
    ).stdout
    # variables come first in the list and win over files
    settings = dict(line.split("=", 1) for line in reversed(listed.splitlines()))
    variables: dict[str, str] = {}
    for name, written in settings.items():
        variables["PIP_" + name.rpartition(".")[2].replace("-", "_").upper()] = ast.literal_eval(
            written
        )
    places = {place for value in variables.values() for place in places_in(value)}
    mounts = [f"--volume={place}:{place}:ro" for place in sorted(places)]
    given = [f"--env={name}={value}" for name, value in variables.items()]
    return [*mounts, *given, *(f"--env={name}" for name in PROXIES)]


def places_in(value: str) -> Iterator[Path]:
    """Yield what a pip setting names on this disk; an index keeps its files beside itself."""
    for word in value.split():
        path = Path(unquote(urlsplit(word).path))
        if word.startswith("file:"):
            path = path.parent
        elif not word.startswith("/"):
            continue
        if path.exists() and path != Path("/"):
            yield path


@pytest.fixture(scope="module")
def shell(base_image: str) -> Iterator[Shell]:
    """Run a line in a clone of this repository on a clean machine."""
    name = f"runner-test-{uuid.uuid4().hex[:12]}"
    start = ["docker", "run", "--detach", "--rm", "--init", "--name", name, "--network", "host"]
    subprocess.run(
        [*start, "--workdir", "/root", *pip_options(), base_image, "sleep", "infinity"],
        check=True,
        capture_output=True,
        timeout=60,
    )

    def _shell(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", "exec", name, "sh", "-c", line],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    try:
        clone = subprocess.run(
            ["git", "-C", str(ROOT), "archive", "HEAD"], check=True, capture_output=True, timeout=60
        )
        unpack = ["docker", "exec", "--interactive", name, "tar", "--extract"]
        subprocess.run(unpack, input=clone.stdout, check=True, timeout=60)
        yield _shell
    finally:
        subprocess.run(["docker", "kill", name], check=True, capture_output=True, timeout=60)


def test_debian_refuses_a_plain_install(shell: Shell) -> None:
    if shell("test -e /usr/lib/python3.11/EXTERNALLY-MANAGED").returncode:
        pytest.skip("the base image's Python is not Debian's own")
    refused = shell("python3 -m pip install .")
    assert refused.returncode != 0
    assert "externally-managed-environment" in refused.stderr


def test_the_first_command_does_the_main_job(shell: Shell) -> None:
    done = shell(command("runner exec"))
    assert "4 of 4 boots stored, 4 started now" in done.stdout, done.stdout + done.stderr
    assert "simulated" in done.stdout
    # a machine with too little to spare for the client voids loads, and says so by its exit code
    assert done.returncode == 0 or " loads void" in done.stdout, done.stdout
    assert " failed" not in done.stdout.splitlines()[-1]


def test_the_second_command_tests_and_skips_visibly_what_needs_docker(shell: Shell) -> None:
    done = shell(f"{command('pytest')} -rs tests/docker tests/test_read.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no Docker daemon answers" in done.stdout
    assert " passed" in done.stdout
    assert "failed" not in done.stdout
