"""`runner exec` through its front door, with the simulated engine as local processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from runner.cli import main
from runner.launchers.process import free_port
from runner.stored.frames import results


@pytest.fixture(autouse=True)
def _without_floor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests two seconds each; one of them measures the floor."""
    if "floor" not in request.node.name:
        monkeypatch.setattr("runner.world.floor", lambda **client: None)


TEMPLATE = """
question = "Does it run?"
boots = {boots}

[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8

[engines.vllm]
simulate = {{ gpu = "laptop-8gb", startup_s = 0.2, speed = 10{faults} }}
memory = {{ kv_tokens = 8192 }}
{more}

[[loads]]
workload = "random"
input_tokens = 32
output_tokens = 4
concurrency = [1, 2]
requests = 6

[timeouts]
ready_s = 30
request_s = {request_s}
stop_s = 5
{timeouts}
"""


def written(
    folder: Path,
    *,
    boots: int = 1,
    faults: str = "",
    more: str = "",
    request_s: int = 20,
    timeouts: str = "",
) -> Path:
    path = folder / "small.toml"
    text = TEMPLATE.format(
        boots=boots,
        faults=f", {faults}" if faults else "",
        more=more,
        request_s=request_s,
        timeouts=timeouts,
    )
    path.write_text(text)
    return path


def run(path: Path, *options: str) -> Result:
    arguments = ["exec", str(path), "--results", str(path.parent / "results"), *options]
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def one_boot(folder: Path) -> dict[str, Any]:
    boots = results(folder / "results" / "small").boots
    assert len(boots) == 1
    return {str(key): value for key, value in boots.iloc[0].items()}


def test_exec_stores_every_boot_prints_tables_and_starts_nothing_again(tmp_path: Path) -> None:
    path = written(tmp_path, boots=2)

    first = run(path)

    assert "2 of 2 boots stored, 2 started now" in first.output
    assert "SIMULATED" in first.output
    read = results(tmp_path / "results" / "small")
    assert list(read.boots.outcome) == ["done", "done"]
    assert list(read.boots.kv_tokens) == [8192, 8192]
    assert len(read.loads) == 4
    window = read.requests[~read.requests.warmup]
    assert list(window.outcome.unique()) == ["ok"]
    assert list(window.output_tokens.unique()) == [4]
    assert list(window.input_tokens.unique()) == [32]
    assert read.loads.cached_tokens.sum() == 0
    assert all(len(times) == sum(1 for _ in times) >= 1 for times in window.chunk_ns)

    again = run(path)
    assert "2 of 2 boots stored, 0 started now" in again.output
    assert len(results(tmp_path / "results" / "small").boots) == 2


def test_no_two_requests_of_a_run_bear_the_same_prompt(tmp_path: Path) -> None:
    run(written(tmp_path, boots=2))
    loads = results(tmp_path / "results" / "small").loads
    assert loads.prefix_hit_tokens.sum() == 0
    assert (loads.prefix_query_tokens > 0).all()


def test_more_boots_add_blocks_and_keep_the_earlier_ones(tmp_path: Path) -> None:
    run(written(tmp_path, boots=1))
    more = run(written(tmp_path, boots=2))
    assert "2 of 2 boots stored, 1 started now" in more.output
    assert results(tmp_path / "results" / "small").boots.run.nunique() == 1


def test_a_changed_load_is_another_run(tmp_path: Path) -> None:
    path = written(tmp_path)
    run(path)
    path.write_text(path.read_text().replace("output_tokens = 4", "output_tokens = 5"))
    run(path)
    assert results(tmp_path / "results" / "small").boots.run.nunique() == 2


def test_a_changed_question_starts_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    run(path)
    path.write_text(path.read_text().replace("Does it run?", "Does it still run?"))
    assert "1 of 1 boots stored, 0 started now" in run(path).output


@pytest.mark.parametrize(
    ("faults", "phase", "cause"),
    [
        ('crash_at = "weights"', "ready", None),
        ('crash_at = "profile"', "ready", None),
        ('wrong_model = "another/model"', "ready", "wrong_model"),
        ("die_after_requests = 4", "load", "killed"),
        ("die_after_requests = 12", "load", "killed"),
        ("oom_under_load = 2", "load", "oom_serving"),
    ],
)
def test_a_boot_that_dies_is_a_row_with_its_cause_and_the_command_says_so(
    tmp_path: Path, faults: str, phase: str, cause: str | None
) -> None:
    done = run(written(tmp_path, faults=faults))

    assert done.exit_code == 1
    boot = one_boot(tmp_path)
    assert (boot["outcome"], boot["phase"]) == ("failed", phase)
    assert boot["cause"] == cause if cause else boot["cause"] != "unknown"
    assert boot["origin"] in {"engine", "host", "client"}
    assert boot["message"]
    assert "What failed, and why" in done.output


def test_a_server_that_never_gets_ready_ends_at_the_timeout(tmp_path: Path) -> None:
    path = written(tmp_path, faults='hang_at = "weights"')
    path.write_text(path.read_text().replace("ready_s = 30", "ready_s = 2"))
    assert run(path).exit_code == 1
    assert one_boot(tmp_path)["cause"] == "never_ready"


@pytest.mark.parametrize(
    ("after", "timeouts", "phase", "cause"),
    [
        (4, "silence_s = 1", "load", "hang"),
        (8, "silence_s = 1", "warmup", "hang"),
        (8, "warmup_s = 2", "warmup", "stuck"),
        (4, "load_s = 2", "load", "load_timeout"),
    ],
    ids=["silent in the window", "silent in the warm-up", "a warm-up without end", "no end"],
)
def test_a_server_that_hangs_under_load_ends_that_load_before_its_requests_time_out(
    tmp_path: Path, after: int, timeouts: str, phase: str, cause: str
) -> None:
    faults = f"hang_after_requests = {after}"
    path = written(tmp_path, faults=faults, request_s=600, timeouts=timeouts)
    done = run(path)
    assert done.exit_code == 1
    boot = one_boot(tmp_path)
    assert (boot["outcome"], boot["phase"], boot["cause"]) == ("failed", phase, cause)
    assert timeouts.rsplit(maxsplit=1)[-1] + " s" in boot["message"]
    loads = results(tmp_path / "results" / "small").loads.sort_values("order")
    assert loads.verdict.iloc[-1] == "void"


def test_a_process_of_a_server_that_outlives_its_stop_is_killed_and_is_a_doubt(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, faults="orphan_child = true", timeouts="stop_s = 0.5")
    path.write_text(path.read_text().replace("stop_s = 5\n", ""))
    run(path)
    boot = one_boot(tmp_path)
    assert boot["outcome"] == "done"
    assert [one["name"] for one in boot["doubts"]].count("stop_forced") == 1


def test_memory_of_a_gpu_that_is_not_released_ends_the_run_and_is_a_row_of_that_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = "GPU-a: 9.00 GiB in use"
    monkeypatch.setattr("runner.boots.guard.Guard.after", lambda guard: held)
    done = run(written(tmp_path, boots=2))
    assert done.exit_code == 3
    assert held in done.output
    boot = one_boot(tmp_path)
    assert (boot["outcome"], boot["phase"], boot["cause"]) == ("failed", "release", "stuck")
    assert held in boot["message"]


def test_another_server_that_takes_the_port_under_load_is_never_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    monkeypatch.setattr("runner.boots.series.free_port", lambda: port)
    taken = threading.Event()
    thief = threading.Thread(target=_take, args=(port, taken), daemon=True)
    thief.start()
    done = run(written(tmp_path, faults="die_after_requests = 4"))
    thief.join(20)
    assert taken.is_set()
    assert done.exit_code == 1
    boot = one_boot(tmp_path)
    assert (boot["outcome"], boot["phase"], boot["cause"]) == ("failed", "load", "killed")
    assert list(results(tmp_path / "results" / "small").loads.verdict) == ["void"]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _take(port: int, taken: threading.Event) -> None:
    """Once a server listens on the port, take that as soon as it is free, and answer for 3 s."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    until_s = time.monotonic() + 30
    while not _listens(port) and time.monotonic() < until_s:
        time.sleep(0.02)
    while time.monotonic() < until_s:
        try:
            with socket.create_server(("127.0.0.1", port)) as server:
                taken.set()
                server.settimeout(3)
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(1 << 16)
                        connection.sendall(answer)
        except TimeoutError:
            return
        except OSError:
            time.sleep(0.005)


def test_an_expected_failure_is_the_answer_and_no_failure_of_the_night(tmp_path: Path) -> None:
    expected = 'expect = { outcome = "failed", cause = "wrong_model" }'
    done = run(written(tmp_path, faults='wrong_model = "a/b"', more=expected))
    assert done.exit_code == 0
    assert "failed (expected)" in done.output


def test_loads_that_an_expected_end_voided_are_no_failure_either(tmp_path: Path) -> None:
    expected = 'expect = { outcome = "failed", cause = "killed" }'
    done = run(written(tmp_path, faults="die_after_requests = 4", more=expected))
    assert "void" in set(results(tmp_path / "results" / "small").loads.verdict)
    assert done.exit_code == 0
    assert "loads void" not in done.output


def test_a_failed_boot_is_repeated_only_when_asked(tmp_path: Path) -> None:
    path = written(tmp_path, faults='wrong_model = "a/b"')
    run(path)
    assert "0 started now" in run(path).output
    assert "1 started now" in run(path, "--retry-failed").output
    assert list(results(tmp_path / "results" / "small").boots.attempt) == [1, 2]


def test_answers_without_a_token_make_the_load_void_never_fast(tmp_path: Path) -> None:
    done = run(written(tmp_path, faults="zero_tokens = true"))
    assert done.exit_code == 1
    assert one_boot(tmp_path)["cause"] == "no_token"


def test_a_cache_that_cannot_be_flushed_is_a_doubt(tmp_path: Path) -> None:
    run(written(tmp_path, faults="stuck_flush = true"))
    loads = results(tmp_path / "results" / "small").loads
    assert not loads.flushed.any()
    assert {entry["name"] for entry in loads.doubts.iloc[0]} >= {"not_flushed"}


def exec_in_background(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", "from runner.cli import main; main()", "exec", str(path)]
    command += ["--results", str(path.parent / "results")]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)


def until(said: str, process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if said.encode() in line:
            return
    pytest.fail(f"it never said {said!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_stores_what_it_measured_and_goes_on_later(
    tmp_path: Path, number: int
) -> None:
    path = written(tmp_path)
    process = exec_in_background(path)
    until("random@c2", process)
    process.send_signal(number)
    assert process.wait(60) == 130
    process.communicate()

    boot = one_boot(tmp_path)
    assert (boot["outcome"], boot["cause"]) == ("interrupted", "interrupted")
    assert list(results(tmp_path / "results" / "small").loads.load) == ["random@c1"]

    assert "1 of 1 boots stored, 1 started now" in run(path).output
    boots = results(tmp_path / "results" / "small").boots
    assert list(boots.outcome) == ["interrupted", "done"]
    assert list(boots.attempt) == [1, 2]


def test_a_killed_runner_loses_nothing_and_leaves_no_server(tmp_path: Path) -> None:
    path = written(tmp_path)
    process = exec_in_background(path)
    until("random@c2", process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    assert "1 of 1 boots stored, 1 started now" in run(path).output
    read = results(tmp_path / "results" / "small")
    assert list(read.boots.outcome) == ["interrupted", "done"]
    assert list(read.loads.load) == ["random@c1", "random@c1", "random@c2"]
    assert not read.requests.duplicated(["boot", "attempt", "load", "request", "warmup"]).any()


def test_the_plan_starts_nothing_and_a_wrong_file_is_exit_2(tmp_path: Path) -> None:
    path = written(tmp_path)
    planned = CliRunner().invoke(main, ["plan", str(path)])
    assert planned.exit_code == 0
    assert "engines.sim vllm" in planned.output
    path.write_text(path.read_text().replace("boots = 1", "boot = 1"))
    refused = CliRunner().invoke(main, ["exec", str(path)])
    assert refused.exit_code == 2
    assert not (tmp_path / "results").exists()


def test_a_report_of_nothing_says_so(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert refused.exit_code == 2
    assert "no results here" in refused.output


def test_a_report_is_machine_readable(tmp_path: Path) -> None:
    run(written(tmp_path))
    folder = str(tmp_path / "results" / "small")
    shown = CliRunner().invoke(main, ["report", folder, "--table", "ttft", "--format", "json"])
    table = json.loads(shown.output)
    assert [row["load"] for row in table["rows"]] == ["random@c1", "random@c2"]


def test_the_floor_of_the_client_is_stored_with_every_boot(tmp_path: Path) -> None:
    run(written(tmp_path))
    boot = one_boot(tmp_path)
    assert boot["floor_in_flight"] > 0
    assert boot["floor_ttft_error_p99_s"] >= 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a tap on the wire needs CAP_NET_RAW")
def test_an_audit_holds_every_load_against_the_wire(tmp_path: Path) -> None:
    run(written(tmp_path), "--audit")
    loads = results(tmp_path / "results" / "small").loads
    assert (loads.wire_requests >= loads.requests).all()
    assert (loads.wire_ttft_error_p50_s < 0.05).all()
