"""`runner calibrate`: a profile fitted to stored throughput finds the machine that gave it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from click.testing import CliRunner

from engines.sim.profile import load
from runner.cli import main

FILE = """
question = "How fast is this machine?"
boots = 2
[common]
model = "tiny"
context_tokens = 1024
max_running = 32
gpus = 0
memory = { kv_tokens = 20480 }
prefix_cache = false
[engines.vllm]
image = "local/vllm-cpu:0.32.0"
[engines.sglang]
image = "local/sglang-cpu:0.5.23"
[[loads]]
workload = "random"
input_tokens = 128
output_tokens = 16
concurrency = LEVELS
requests = { per_stream = 4, at_least = 8 }
"""


def measured(folder: Path, levels: str) -> Path:
    """Results of a machine twice as slow at its steps as the profile that a fit begins from."""
    text = resources.files("engines.sim").joinpath("gpus", "cpu.toml").read_text()
    truth = folder / "truth.toml"
    truth.write_text(text.replace("step_s = 0.008", "step_s = 0.016"))
    file = folder / "machine.toml"
    file.write_text(FILE.replace("LEVELS", levels))
    out = ["--results", str(folder / "results")]
    words = ["exec", str(file), "--simulate", "--gpu", str(truth), *out]
    assert CliRunner().invoke(main, words).exit_code == 0
    return folder / "results" / "machine"


def test_levels_that_were_not_fitted_are_predicted_with_their_error(tmp_path: Path) -> None:
    path, here = measured(tmp_path, "[1, 4, 8, 16]"), tmp_path / "here.toml"
    words = ["calibrate", str(path), "--fit", "1", "--fit", "16", "--write", str(here)]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0, found.output
    assert found.output.count("\nfitted ") == 4
    assert found.output.count("\npredicted ") == 4
    profile = load(str(here))
    assert profile.calibrated
    assert profile.errors["output_tokens_per_s"] < 0.05
    assert abs(profile.engines["vllm"].step_s / 0.016 - 1) < 0.1


def test_one_level_is_not_enough_to_fit_and_predict(tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["calibrate", str(measured(tmp_path, "8"))])
    assert found.exit_code == 4
    assert "concurrency = [1, 4, 8, 16, 32]" in found.output
