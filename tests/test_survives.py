"""What a night meets: a full disk, a neighbour's GPU, an engine that echoes a secret."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runner.boots.gpu import Gpus
from runner.cli import main
from runner.errors import HostError
from runner.owners.clean import Finding
from runner.preflight.build import Build
from runner.run import refuse_shared_gpus
from runner.stored.frames import results
from runner.workloads import Vocabulary

FILE = """
question = "Does it survive?"
boots = 2
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8
memory = {{ kv_tokens = 8192 }}
[engines.vllm]
simulate = {{ gpu = "laptop-8gb", startup_s = 0.1, speed = 10 {simulate} }}
{section}
[[loads]]
workload = "random"
input_tokens = 16
output_tokens = 4
concurrency = 1
requests = 4
[timeouts]
stop_s = 2
"""


@pytest.fixture(autouse=True)
def _without_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.world.floor", lambda **client: None)


def run(folder: Path, results_folder: Path, *, simulate: str = "", section: str = "") -> Result:
    path = folder / "survives.toml"
    path.write_text(FILE.format(simulate=simulate, section=section))
    arguments = ["exec", str(path), "--results", str(results_folder)]
    return CliRunner().invoke(main, arguments)


CANARY = "canary-7f3a9c2e51d84b60"


def test_a_secret_that_the_engine_echoes_is_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", CANARY)
    out = tmp_path / "results"
    section = 'secrets = ["MY_TOKEN"]'
    done = run(tmp_path, out, simulate=", echo_environment = true", section=section)
    crashed = run(
        tmp_path,
        out,
        simulate=', echo_environment = true, crash_at = "weights"',
        section=section,
    )
    commands = (
        ["plan", str(tmp_path / "survives.toml")],
        ["report", str(out / "survives"), "--format", "json"],
        ["export", str(out / "survives"), "--out", str(tmp_path / "export")],
    )
    said = [done.output, crashed.output]
    said += [CliRunner().invoke(main, command).output for command in commands]

    logs = [gzip.decompress(path.read_bytes()) for path in out.rglob("*.log.gz")]
    assert any(b"MY_TOKEN=" in log for log in logs), "the engine did not echo its environment"
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    frames = results(out / "survives")
    tables = (frames.cells, frames.boots, frames.facts, frames.loads, frames.requests)
    everything = [*logs, *written, *(text.encode() for text in said)]
    everything += [table.to_csv().encode() for table in tables]
    assert not [text[:200] for text in everything if CANARY.encode() in text]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of one megabyte."""
    if os.geteuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a tmpfs may not be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_the_run_with_its_own_code_and_room_lets_it_go_on(
    tmp_path: Path, small_disk: Path
) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * (930 << 10))
    full = run(tmp_path, small_disk)
    assert full.exit_code == 3, full.output
    assert "the disk is full" in full.output
    assert "Traceback" not in full.output
    before = results(small_disk / "survives").boots if list(small_disk.rglob("boots")) else None
    kept = 0 if before is None else int((before.outcome == "done").sum())

    filler.unlink()
    again = run(tmp_path, small_disk)
    assert f"2 of 2 boots stored, {2 - kept} started now" in again.output
    read = results(small_disk / "survives")
    assert read.unreadable == []
    assert not read.loads.duplicated(["boot", "attempt", "load"]).any()
    assert not list(small_disk.rglob("*.draft"))


def build(*uuids: str) -> Build:
    return Build(
        build_id="b",
        image_digest="",
        model_build="",
        config={},
        vocabulary=Vocabulary(),
        gpus=Gpus(names=("H100",) * len(uuids), uuids=uuids, driver="1"),
    )


def neighbour(verdict: str, gpus: int | tuple[str, ...]) -> Finding:
    return Finding(
        kind="container",
        name="runner-other",
        purpose="experiment other, run 1, boot 0",
        verdict=verdict,  # type: ignore[arg-type]
        by_hand="docker rm -f runner-other",
        gpus=gpus,
    )


@pytest.mark.parametrize("verdict", ["alive", "unknown"])
@pytest.mark.parametrize("gpus", [("GPU-a",), 1])
def test_a_gpu_that_another_live_runner_uses_is_refused(
    verdict: str, gpus: int | tuple[str, ...]
) -> None:
    with pytest.raises(HostError, match=r"runner-other.*It uses GPU-a.*other GPUs in `gpus`"):
        refuse_shared_gpus(neighbour(verdict, gpus), {"cell": build("GPU-a")})


@pytest.mark.parametrize(
    "found", [neighbour("dead", ("GPU-a",)), neighbour("alive", ("GPU-b",)), neighbour("alive", 0)]
)
def test_other_gpus_and_dead_runners_keep_nobody_from_starting(found: Finding) -> None:
    refuse_shared_gpus(found, {"cell": build("GPU-a")})
