"""`runner exec` on containers of the simulated engine: deaths, strangers and leftovers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runner.boots.published import published_floor
from runner.cli import main
from runner.launchers import Launch, docker
from runner.launchers.docker import DockerLauncher
from runner.stored.frames import results

pytestmark = pytest.mark.docker

TEMPLATE = """
question = "Does it run in containers?"
boots = 1

[common]
model = "Qwen/Qwen3-1.7B"
image = "{image}"
context_tokens = 2048
max_running = 8
memory = {{ kv_tokens = 8192 }}

[engines.vllm]
simulate = {{ gpu = "laptop-8gb", startup_s = 0.5 }}

[engines.sglang]
simulate = {{ gpu = "laptop-8gb", startup_s = 0.5 }}

[[loads]]
workload = "random"
input_tokens = 32
output_tokens = 8
concurrency = [1, 2]
requests = {requests}
"""


def written(folder: Path, image: str, *, requests: int = 6) -> Path:
    path = folder / "contained.toml"
    path.write_text(TEMPLATE.format(image=image, requests=requests))
    return path


def run(path: Path) -> Result:
    arguments = ["exec", str(path), "--results", str(path.parent / "results")]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def ours(path: Path) -> list[str]:
    """Return the containers that are there for an experiment."""
    label = f"label=runner.experiment={path.stem}"
    listed = subprocess.run(
        ["docker", "ps", "-aq", "--filter", label], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def killed_when_it_loads(path: Path) -> threading.Thread:
    """Kill the first container of an experiment once its first load is under way."""

    def kill() -> None:
        log = path.parent / "results" / path.stem / ".open"
        while not list(log.glob("*/*/spool-0/*")):
            time.sleep(0.05)
        time.sleep(0.5)
        subprocess.run(["docker", "kill", *ours(path)], check=True, capture_output=True)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_containers_are_measured_at_their_own_address_and_gone_afterwards(
    tmp_path: Path, runner_image: str
) -> None:
    path = written(tmp_path, runner_image)
    done = run(path)
    assert done.exit_code in {0, 1}, done.output
    read = results(tmp_path / "results" / "contained")
    assert list(read.boots.outcome) == ["done", "done"], done.output
    assert list(read.boots.way.unique()) == ["container"]
    assert all(digest.startswith("sha256:") for digest in read.boots.image_digest)
    window = read.requests[~read.requests.warmup]
    assert list(window.output_tokens.unique()) == [8]
    assert ours(path) == []
    assert "0 started now" in run(path).output


def test_a_container_killed_during_its_load_is_a_failed_row_and_the_rest_goes_on(
    tmp_path: Path, runner_image: str
) -> None:
    path = written(tmp_path, runner_image, requests=60)
    killer = killed_when_it_loads(path)
    done = run(path)
    killer.join()

    assert done.exit_code == 1
    boots = results(tmp_path / "results" / "contained").boots
    assert sorted(boots.outcome) == ["done", "failed"], done.output
    [failed] = boots[boots.outcome == "failed"].to_dict("records")
    assert (failed["phase"], failed["cause"], failed["exit_code"]) == ("load", "killed", 137)
    assert not failed["oom_killed"]
    assert ours(path) == []


def test_a_missing_image_is_exit_3_before_anything_starts(tmp_path: Path) -> None:
    path = written(tmp_path, "nobody/has-this:1.0")
    refused = run(path)
    assert refused.exit_code == 3
    assert "nobody/has-this:1.0" in refused.output
    assert ours(path) == []


def test_containers_of_a_killed_runner_are_removed_by_the_next_exec_and_strangers_stay(
    tmp_path: Path, runner_image: str
) -> None:
    path = written(tmp_path, runner_image, requests=60)
    stranger = subprocess.run(
        ["docker", "run", "-d", "--rm", "--network", "none", runner_image, "sleep", "600"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    try:
        command = [sys.executable, "-c", "from runner.cli import main; main()", "exec", str(path)]
        command += ["--results", str(tmp_path / "results")]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as first:
            assert first.stderr is not None
            while b"random@c2" not in first.stderr.readline():
                pass
            first.send_signal(signal.SIGKILL)
        assert len(ours(path)) == 1

        path.write_text(path.read_text())
        done = run(path)
        assert "2 of 2 boots stored, 2 started now" in done.output
        boots = results(tmp_path / "results" / "contained").boots
        assert sorted(boots.outcome) == ["done", "done", "interrupted"], done.output
        assert ours(path) == []
        left = subprocess.run(["docker", "ps", "-q", "--no-trunc"], capture_output=True, check=True)
        assert stranger.encode() in left.stdout
    finally:
        subprocess.run(["docker", "rm", "-f", stranger], capture_output=True, check=False)


def test_a_load_through_a_published_port_carries_the_floor_of_such_a_port(
    tmp_path: Path, runner_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker, "reachable", lambda *_: False)
    path = written(tmp_path, runner_image)
    ended = run(path)
    assert ended.exit_code in {0, 1}, ended.output
    assert "published_port" in ended.output
    boots = results(path.parent / "results" / path.stem).boots
    assert set(boots["way"]) == {"published"}
    assert (boots["floor_ttft_error_p50_s"] > 0).all()
    assert boots["floor_output_tokens_per_s"].nunique() == 1, "one image, one measurement"
    assert not ours(path)


def test_a_floor_of_a_port_that_cannot_be_measured_is_none() -> None:
    launch = Launch(name=f"runner-{uuid.uuid4().hex[:12]}", image="no-such-image:ever", port=8000)
    assert published_floor(DockerLauncher(), launch) is None
