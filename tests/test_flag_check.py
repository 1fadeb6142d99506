"""Flags are held against the image's own help text, once per digest, before anything starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.boots.gpu import Gpus
from runner.errors import ExperimentError, HostError
from runner.experiment.read import read
from runner.launchers import NO_PULL, Exit, Image, Launch, Pulling
from runner.plan import Plan, expand
from runner.preflight.build import Build
from runner.preflight.flag_check import check_flags
from runner.workloads import Vocabulary

FILE = """
question = "Which flags?"
boots = 1

[common]
model = "some/model"

[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
flags = {{ {flag} = true }}

[[loads]]
workload = "random"
input_tokens = 8
output_tokens = 8
concurrency = 1
requests = 1
"""
HELP = "options:\n" + "".join(
    f"  --{name} X\n"
    for name in (
        "model",
        "served-model-name",
        "host",
        "port",
        "enable-prompt-tokens-details",
        "generation-config",
        "known-flag",
    )
)


@dataclass
class Printer:
    """A launcher whose servers print a help text and end."""

    text: str = HELP
    code: int = 0
    starts: list[Launch] = field(default_factory=list)

    def resolve(self, image: str, pulling: Pulling = NO_PULL) -> Image:
        return Image(reference=image, digest="sha256:abc")

    def start(self, launch: Launch, log: Path) -> Any:
        self.starts.append(launch)
        log.write_text(self.text)
        return self

    def exited(self) -> Exit:
        return Exit(code=self.code)

    def stop(self, grace_s: float) -> Exit:
        return self.exited()

    def remove(self) -> None:
        pass


def planned(folder: Path, flag: str) -> Plan:
    path = folder / "flags.toml"
    path.write_text(FILE.format(flag=flag))
    return expand(read(path))


def check(plan: Plan, printer: Printer, cache: Path) -> None:
    build = Build(
        build_id="b",
        image_digest="sha256:abc",
        model_build="",
        config={},
        vocabulary=Vocabulary(),
        gpus=Gpus(),
    )
    check_flags(plan.cells, {cell.cell_id: build for cell in plan.cells}, printer, cache)


def test_a_flag_the_image_does_not_know_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="does not know --new-flag"):
        check(planned(tmp_path, "new-flag"), Printer(), tmp_path)


def test_an_image_is_asked_once(tmp_path: Path) -> None:
    printer = Printer()
    check(planned(tmp_path, "known-flag"), printer, tmp_path)
    check(planned(tmp_path, "known-flag"), printer, tmp_path)
    assert len(printer.starts) == 1
    assert printer.starts[0].argv == ("--help=all",)


def test_an_image_without_help_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="printed no help"):
        check(planned(tmp_path, "known-flag"), Printer(code=1), tmp_path)
    assert not list(tmp_path.glob("*.txt"))
