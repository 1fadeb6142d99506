"""The runner's own image: it plans, runs others beside a Docker socket, and serves as an engine."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import engines
from engines import Served
from runner.boots import pages
from runner.boots.ready import wait_until_ready
from runner.launchers import Launch
from runner.launchers.container import DockerServer
from runner.launchers.daemon import Daemon
from runner.launchers.docker import DockerLauncher
from runner.owners.clean import sweep_containers

pytestmark = pytest.mark.docker

SOCKET = "/var/run/docker.sock"


def cli(*words: str, codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(
        ["docker", *words], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout.strip()


def wait_until(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.1)


def engines_of(experiment: str) -> list[str]:
    """Return the containers that a runner made for an experiment."""
    label = f"label=runner.experiment={experiment}"
    return cli("ps", "-a", "-q", "--no-trunc", "--filter", label).split()


@pytest.fixture
def experiment(runner_image: str, tmp_path: Path) -> Iterator[Path]:
    """Return an experiment of the simulated engine in containers, under a name of its own."""
    path = tmp_path / f"test-{uuid.uuid4().hex[:8]}.toml"
    path.write_text(
        f"""
question = "Does the runner work inside a container?"
boots = 1
seed = 1

[common]
model = "Qwen/Qwen3-1.7B"
image = "{runner_image}"
context_tokens = 2048

[engines.vllm]
simulate = {{ startup_s = 0.2 }}
memory = {{ fraction = 0.85 }}

[[loads]]
workload = "random"
input_tokens = 16
output_tokens = 4
concurrency = [1]
requests = {{ per_stream = 3 }}
""",
        encoding="utf-8",
    )
    yield path
    for container in engines_of(path.stem):
        cli("rm", "-f", container)


def inside(experiment: Path, image: str, *words: str, options: tuple[str, ...] = ()) -> str:
    """Run the runner in a container beside Docker's socket; return its output.

    On a busy machine the load may be void, which exit code 1 says; that is not in question here.
    """
    shared = ("-v", f"{SOCKET}:{SOCKET}", "-v", f"{experiment.parent}:/work")
    return cli("run", "--rm", *shared, *options, image, "runner", *words, codes=(0, 1))


def boots(experiment: Path) -> list[dict[str, Any]]:
    folder = experiment.parent / "results" / experiment.stem / "boots"
    return [dict(row) for _, row in pd.read_parquet(folder).iterrows()]


def test_the_image_plans_without_a_socket(experiment: Path, runner_image: str) -> None:
    shared = ("-v", f"{experiment.parent}:/work")
    text = cli("run", "--rm", *shared, runner_image, "runner", "plan", experiment.name)
    assert "docker run" in text
    assert "engines.sim vllm" in text


def test_from_inside_its_container_it_runs_engines_at_their_own_address(
    experiment: Path, runner_image: str
) -> None:
    inside(experiment, runner_image, "exec", experiment.name)
    (row,) = boots(experiment)
    assert (row["outcome"], row["way"]) == ("done", "container")
    assert engines_of(experiment.stem) == []


@pytest.fixture
def network() -> Iterator[str]:
    name = f"runner-test-{uuid.uuid4().hex[:8]}"
    cli("network", "create", name)
    yield name
    cli("network", "rm", name)


def test_engines_join_the_network_that_its_container_is_in(
    experiment: Path, runner_image: str, network: str
) -> None:
    inside(experiment, runner_image, "exec", experiment.name, options=("--network", network))
    (row,) = boots(experiment)
    assert (row["outcome"], row["way"]) == ("done", "container")


def test_in_the_network_of_the_host_it_works_too(experiment: Path, runner_image: str) -> None:
    inside(experiment, runner_image, "exec", experiment.name, options=("--network", "host"))
    (row,) = boots(experiment)
    assert (row["outcome"], row["way"]) == ("done", "container")


def test_an_engine_whose_runner_died_with_its_container_is_removed_from_outside(
    experiment: Path, runner_image: str
) -> None:
    text = experiment.read_text().replace("startup_s = 0.2", "startup_s = 300")
    experiment.write_text(text)
    shared = ("-v", f"{SOCKET}:{SOCKET}", "-v", f"{experiment.parent}:/work")
    home = cli("run", "-d", *shared, runner_image, "runner", "exec", experiment.name)
    try:
        wait_until(lambda: len(engines_of(experiment.stem)) == 1)
        list(sweep_containers(Daemon()))
        assert len(engines_of(experiment.stem)) == 1
        cli("kill", home)
        list(sweep_containers(Daemon()))
        assert engines_of(experiment.stem) == []
    finally:
        with suppress(AssertionError):
            cli("rm", "-f", home)


@pytest.fixture(params=["vllm", "sglang"])
def served(
    request: pytest.FixtureRequest, runner_image: str, tmp_path: Path
) -> Iterator[tuple[engines.Engine, DockerServer]]:
    """Return a simulated engine in a container, just started."""
    engine = engines.get(request.param)
    asked = Served(
        model="Qwen/Qwen3-1.7B",
        name="toy",
        host="0.0.0.0",
        port=engine.port,
        settings={"context_tokens": 2048, "memory": {"fraction": 0.85}},
    )
    arguments = engine.arguments(asked)
    simulate = ("--simulate", json.dumps({"startup_s": 0.2}))
    launch = Launch(
        name=f"runner-test-{uuid.uuid4().hex[:8]}",
        image=runner_image,
        argv=("python3", "-m", "engines.sim", engine.name, *simulate, *arguments.argv),
        env=arguments.env,
        port=engine.port,
        labels={"runner.test": "1"},
    )
    server = DockerLauncher().start(launch, tmp_path / "log")
    yield engine, server
    server.remove()


def test_the_image_serves_the_simulated_engine(
    served: tuple[engines.Engine, DockerServer], tmp_path: Path
) -> None:
    engine, server = served
    ready = wait_until_ready(server, engine=engine, model="toy", timeout_s=60)
    assert ready.cause is None, (ready, (tmp_path / "log").read_text())
    facts = {fact.name for fact in pages.stated(engine, server.control_url).facts}
    assert {"kv_tokens", "context_tokens"} <= facts
    assert "running" in pages.counters(engine, server.control_url)
    assert pages.flush(engine, server.control_url) in {True, None}
    other = wait_until_ready(server, engine=engine, model="another", timeout_s=60)
    assert other.cause == "wrong_model"
