"""The `docker run` line that a plan prints."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.launchers import Launch, Mount
from runner.launchers.docker_line import equivalent

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(argv=st.lists(WORDS, max_size=4), value=WORDS)
def test_whatever_is_asked_comes_back_from_a_shell_as_it_was(argv: list[str], value: str) -> None:
    launch = Launch(name="n", image="image", argv=tuple(argv), env={"KEY": value}, port=1)
    words = shlex.split(equivalent(launch))
    assert words[:4] == ["docker", "run", "--name", "n"]
    assert words[words.index("-e") + 1] == f"KEY={value}"
    assert words[words.index("image") :] == ["image", *argv]


def test_a_line_publishes_on_loopback_only_and_takes_privileges_away() -> None:
    line = equivalent(Launch(name="n", image="image", port=8000))
    assert "--publish 127.0.0.1::8000" in line
    assert "--security-opt no-new-privileges --cap-drop" in line
    assert "--privileged" not in line
    assert "--rm" not in line


def test_a_secret_is_named_and_its_value_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_canary_value")
    line = equivalent(Launch(name="n", image="image", port=1, secrets=("HF_TOKEN",)))
    assert line.endswith("-e HF_TOKEN image")
    assert "canary" not in line


def test_gpus_are_a_number_or_devices_by_uuid() -> None:
    lines = [
        equivalent(Launch(name="n", image="i", port=1, gpus=gpus))
        for gpus in (0, 2, ("GPU-a",), ("GPU-a", "GPU-b"))
    ]
    assert "--gpus" not in lines[0]
    assert "--gpus 2 " in lines[1]
    assert "--gpus device=GPU-a " in lines[2]
    assert """--gpus '"device=GPU-a,GPU-b"' """ in lines[3]


def test_a_mount_is_read_only_unless_it_says_otherwise() -> None:
    mounts = (
        Mount(source=Path("/models"), target="/m"),
        Mount(source=Path("/a,b"), target="/c", read_only=False),
    )
    line = equivalent(Launch(name="n", image="i", port=1, mounts=mounts))
    assert "--mount type=bind,source=/models,target=/m,readonly " in line
    assert """--mount 'type=bind,"source=/a,b",target=/c' """ in line


def test_the_ipc_of_the_host_replaces_a_size_of_shared_memory() -> None:
    shm = Launch(name="n", image="i", port=1, shm_bytes=1 << 30)
    assert "--shm-size 1073741824" in equivalent(shm)
    both = Launch(name="n", image="i", port=1, shm_bytes=1 << 30, host_ipc=True)
    assert "--ipc host" in equivalent(both)
    assert "--shm-size" not in equivalent(both)
