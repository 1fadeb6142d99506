"""Whose a server is, and whether that runner lives: doubted rather than guessed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.owners import owner
from runner.owners.owner import Evidence, Owner, Verdict, judge

OWNER = Owner(machine_boot="boot-1", pid_namespace=10, pid=500, started_ticks=7_000)
SEEN = Evidence(
    machine_boot="boot-1",
    pid_namespace=10,
    older_than_boot=False,
    started_ticks=7_000,
    container=None,
)


@pytest.mark.parametrize(
    ("seen", "verdict"),
    [
        (SEEN, "alive"),
        (replace(SEEN, started_ticks=None), "dead"),
        (replace(SEEN, started_ticks=7_001), "dead"),
        (replace(SEEN, started_ticks="hidden"), "unknown"),
        (replace(SEEN, pid_namespace=11), "unknown"),
        (replace(SEEN, pid_namespace=11, started_ticks=None), "unknown"),
        (replace(SEEN, machine_boot="boot-2"), "unknown"),
        (replace(SEEN, machine_boot="boot-2", started_ticks=None), "unknown"),
        (replace(SEEN, machine_boot="boot-2", older_than_boot=True), "dead"),
    ],
)
def test_a_runner_on_the_machine_itself_is_judged_by_its_process(
    seen: Evidence, verdict: Verdict
) -> None:
    assert judge(OWNER, seen) == verdict


@pytest.mark.parametrize(
    ("pid", "container", "verdict"),
    [
        (1, "running", "alive"),
        (7, "running", "unknown"),
        (1, "ended", "dead"),
        (7, "ended", "dead"),
        (1, None, "unknown"),
    ],
)
def test_a_runner_in_a_container_is_judged_from_outside_by_that_container(
    pid: int, container: Literal["running", "ended"] | None, verdict: Verdict
) -> None:
    inside = replace(OWNER, pid_namespace=11, pid=pid, container="c" * 64)
    assert judge(inside, replace(SEEN, container=container)) == verdict


OWNERS = st.builds(
    Owner,
    machine_boot=st.sampled_from(["boot-1", "boot-2"]),
    pid_namespace=st.sampled_from([10, 11]),
    pid=st.sampled_from([1, 500]),
    started_ticks=st.sampled_from([7_000, 7_001]),
    container=st.sampled_from(["", "c" * 64]),
)
EVIDENCE = st.builds(
    Evidence,
    machine_boot=st.sampled_from(["boot-1", "boot-2"]),
    pid_namespace=st.sampled_from([10, 11]),
    older_than_boot=st.booleans(),
    started_ticks=st.sampled_from([None, 7_000, 7_001, "hidden"]),
    container=st.sampled_from([None, "running", "ended"]),
)


@given(whose=OWNERS, seen=EVIDENCE)
def test_no_runner_is_dead_while_its_own_process_is_seen(whose: Owner, seen: Evidence) -> None:
    same_place = (whose.machine_boot, whose.pid_namespace) == (
        seen.machine_boot,
        seen.pid_namespace,
    )
    if same_place and seen.started_ticks in {whose.started_ticks, "hidden"}:
        assert judge(whose, seen) != "dead"


@given(whose=OWNERS)
def test_labels_bring_the_owner_back(whose: Owner) -> None:
    found = owner.labels(whose, experiment="e", run="r", cell="c", boot="0")
    assert owner.of_labels(found) == whose
    assert owner.MARK in found


@pytest.mark.parametrize("missing", [None, "runner.owner.pid", "runner.owner.container"])
def test_labels_that_are_not_all_there_name_nobody(missing: str | None) -> None:
    found = owner.labels(OWNER, experiment="e", run="r", cell="c", boot="0")
    if missing is None:
        found["runner.owner.pid"] = "many"
    else:
        del found[missing]
    assert owner.of_labels(found) is None


def test_labels_without_the_container_keep_everything_else() -> None:
    inside = replace(OWNER, container="c" * 64)
    found = owner.labels(inside, experiment="e", run="r", cell="c", boot="0")
    assert owner.of_labels(owner.without_container(found)) == OWNER
    assert owner.without_container({"a": "b"}) == {"a": "b"}


def test_this_process_is_alive_to_itself() -> None:
    me = owner.here()
    seen = replace(
        SEEN,
        machine_boot=owner.machine_boot(),
        pid_namespace=owner.pid_namespace(),
        started_ticks=owner.started_ticks(me.pid),
    )
    assert me.pid == os.getpid()
    assert judge(me, seen) == "alive"


def test_a_process_that_ended_has_no_start_time() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    assert isinstance(owner.started_ticks(ended.pid), int)
    ended.wait()
    assert owner.started_ticks(ended.pid) is None


def test_a_process_that_proc_hides_is_hidden_not_gone(tmp_path: Path) -> None:
    assert owner.started_ticks(os.getpid(), proc=tmp_path) == "hidden"


def test_a_name_with_blanks_and_parentheses_does_not_shift_the_start_time(tmp_path: Path) -> None:
    (tmp_path / "5").mkdir()
    fields = " ".join(str(number) for number in range(4, 30))
    (tmp_path / "5" / "stat").write_text(f"5 (a ) R (b) S {fields}\n")
    assert owner.started_ticks(5, proc=tmp_path) == 22


def test_the_machine_booted_before_now() -> None:
    assert 0 < owner.machine_boot_s() < Path("/proc/self").stat().st_ctime + 1


@pytest.mark.parametrize(
    ("line", "container"),
    [
        (
            f"131 75 254:0 /var/lib/docker/containers/{'ab' * 32}/hostname /etc/hostname rw - ext4",
            "ab" * 32,
        ),
        (
            f"131 75 0:1 /home/x/.local/share/docker/containers/{'0' * 64}/hosts /etc/hosts",
            "0" * 64,
        ),
        ("131 75 254:0 /var/lib/docker/containers/short/hostname /etc/hostname rw", ""),
        (f"1 2 3:4 / /var/lib/docker/containers/{'ab' * 32}/mounts/shm rw - tmpfs", ""),
        ("", ""),
    ],
)
def test_a_container_knows_itself_by_the_files_that_docker_mounts(
    line: str, container: str, tmp_path: Path
) -> None:
    (tmp_path / "mountinfo").write_text(f"1 1 0:1 / / rw - overlay\n{line}\n")
    assert owner.own_container(tmp_path / "mountinfo") == container


def test_without_mountinfo_there_is_no_container(tmp_path: Path) -> None:
    assert owner.own_container(tmp_path / "nothing") == ""
