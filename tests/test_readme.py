"""The README against the product: its commands, files and example are those that exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from runner.cli import main
from runner.experiment.read import read
from runner.plan import expand

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_two_lines_are_all_the_set_up_there_is() -> None:
    setup, *_ = re.findall(r"^```(?:sh|bash|)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    job, tests = setup.splitlines()
    install = r"python3 -m venv \.venv && \.venv/bin/pip install (-e )?"
    assert re.fullmatch(install + r"\. && \.venv/bin/runner exec experiments/quickstart\.toml", job)
    assert re.fullmatch(install + r"'\.\[dev\]' && \.venv/bin/pytest", tests)


def test_every_command_is_in_the_table_of_commands_and_has_help() -> None:
    listed = re.findall(r"^\| `runner (\w+)", README, re.MULTILINE)
    context = click.Context(main)
    assert sorted(listed) == sorted(main.list_commands(context))
    for name in listed:
        command = main.get_command(context, name)
        assert command is not None
        assert command.help, name


@pytest.mark.parametrize("named", sorted(set(re.findall(r"\bexperiments/\w+\.toml\b", README))))
def test_an_experiment_that_is_named_can_be_planned(named: str) -> None:
    assert expand(read(ROOT / named)).boots


def test_the_example_experiment_is_one(tmp_path: Path) -> None:
    example = re.findall(r"^```toml\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "example.toml").write_text(example)
    plan = expand(read(tmp_path / "example.toml"))
    assert len(plan.cells) == 4
    assert not plan.inapplicable
