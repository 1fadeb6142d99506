"""What is made ready on this machine before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.errors import HostError
from runner.experiment import Experiment
from runner.plan import expand
from runner.plan.cells import Cell
from runner.preflight.build import make_models_folder


def cells(model: str) -> tuple[Cell, ...]:
    section = {"image": "vllm/vllm-openai:v0.31.0"}
    raw = {
        "question": "?",
        "boots": 1,
        "common": {"model": model},
        "engines": {"vllm": section},
        "loads": [
            {
                "workload": "random",
                "input_tokens": 8,
                "output_tokens": 8,
                "concurrency": 1,
                "requests": 9,
            }
        ],
    }
    return expand(Experiment.model_validate(raw)).cells


def test_the_models_folder_is_made_before_docker_would_make_it_as_root(tmp_path: Path) -> None:
    make_models_folder(cells("org/model"), tmp_path / "new" / "home")
    assert (tmp_path / "new" / "home").is_dir()


def test_a_folder_that_no_server_is_shown_is_not_made(tmp_path: Path) -> None:
    make_models_folder(cells("/some/model"), tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_folder_that_cannot_be_made_is_told_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match=r"\[cache\] models"):
        make_models_folder(cells("org/model"), tmp_path / "file" / "home")
