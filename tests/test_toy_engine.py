"""Adding an engine is adding one file: a toy in the package's path is read, planned and printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engines
from runner.errors import ExperimentError
from runner.experiment.read import read
from runner.plan import expand
from runner.plan.text import planned

TOY = '''\
"""A toy server."""

from engines import Arguments, Engine, Served


def arguments(served: Served) -> Arguments:
    argv = [served.model, "--listen", f"{served.host}:{served.port}"]
    refusals = []
    for name, value in served.settings.items():
        if name == "context_tokens":
            argv += ["--window", str(value)]
        else:
            refusals.append(f"a toy knows no {name}")
    return Arguments(argv=tuple(argv), env={"TOY": "1"}, refusals=tuple(refusals))


ENGINE = Engine(
    name="toy",
    port=9000,
    image_program=("toy-server",),
    local_program=("toy-server", "--local"),
    known=((1, 0), (1, 0)),
    arguments=arguments,
    completion=lambda model, tokens, output_tokens, sampling: {"tokens": list(tokens)},
)
'''

EXPERIMENT = """\
question = "Can a toy be planned?"
boots = 2

[common]
model = "org/model"

[engines.toy]
image = "toys/toy:1.0"

[matrix]
context_tokens = [128, 256]

[[include]]
max_running = 4

[[loads]]
workload = "random"
input_tokens = 8
output_tokens = 8
concurrency = 1
requests = 100
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a folder with one new file on the path of the package `engines`."""
    folder = tmp_path / "more_engines"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(folder)])
    yield folder
    sys.modules.pop("engines.toy", None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "toys.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path


@pytest.mark.usefixtures("toy")
def test_a_new_file_is_a_new_engine(file: Path) -> None:
    assert "toy" in engines.names()
    found = expand(read(file))
    assert [cell.label for cell in found.cells] == [
        "toy context_tokens=128",
        "toy context_tokens=256",
    ]
    assert [entry.reasons for entry in found.inapplicable] == [("a toy knows no max_running",)]


@pytest.mark.usefixtures("toy")
def test_its_command_is_printed_in_the_plan(file: Path) -> None:
    text = planned(expand(read(file)), {})
    command = "toy-server org/model --listen 0.0.0.0:9000 --window 128"
    assert f"command  {command}\n" in text
    assert f" toys/toy:1.0 {command}\n" in text
    assert " -e TOY=1 " in text


@pytest.mark.usefixtures("toy")
def test_as_a_local_command_it_is_started_by_its_own_program(file: Path) -> None:
    text = EXPERIMENT.replace('image = "toys/toy:1.0"', 'launcher = "process"')
    file.write_text(text, encoding="utf-8")
    command = "env TOY=1 toy-server --local org/model --listen 127.0.0.1:9000 --window 128"
    assert f"command  {command}\n" in planned(expand(read(file)), {})


def test_without_its_file_it_is_unknown(file: Path) -> None:
    with pytest.raises(ExperimentError, match=r"unknown engine\. Known here: sglang, vllm"):
        read(file)


def test_a_cell_whose_engine_has_no_chats_is_inapplicable_before_anything_starts(
    toy: Path, tmp_path: Path
) -> None:
    assert toy.exists()
    file = tmp_path / "chats.toml"
    random = 'workload = "random"\ninput_tokens = 8\noutput_tokens = 8'
    chats = 'workload = "structured"\nconstrained = true\noutput_tokens = 8'
    file.write_text(EXPERIMENT.replace(random, chats), encoding="utf-8")
    plan = expand(read(file))
    assert plan.cells == ()
    said = {reason for entry in plan.inapplicable for reason in entry.reasons}
    assert "structured@c1 chats, and toy has no chats; leave it out for toy" in said
