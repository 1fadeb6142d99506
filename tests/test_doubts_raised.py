"""Each doubt of the catalogue is raised where its reason is seen, with what to do about it."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from runner.doubts import ADVICE, of_load
from runner.report import report
from runner.stats.drift import Drift, over_blocks
from runner.stats.refusal import Refusal
from tests.stored import Stored

ROOT = Path(__file__).parents[1]


def names(**load: Any) -> list[str]:
    return [entry.name for entry in of_load({"load": "random@c8", **load})]


@pytest.mark.parametrize("name", sorted(ADVICE))
def test_every_doubt_is_raised_somewhere_and_says_what_to_do(name: str) -> None:
    sources = [*(ROOT / "runner").rglob("*.py")]
    text = "".join(path.read_text() for path in sources)
    assert len(re.findall(f'"{name}"', text)) > 1 or name in {"simulated", "rehearsal"}
    assert ADVICE[name][1].endswith(".")


def test_answers_of_another_length_are_told() -> None:
    outcomes = json.dumps({"ok": 99, "wrong_length": 1})
    assert names(outcomes=outcomes, requests=100) == ["outputs_ended_early"]
    assert names(outcomes=json.dumps({"ok": 100}), requests=100) == []


def test_a_load_without_warmup_holds_the_first_answers_in_its_window() -> None:
    assert names(asked=json.dumps({"warmup_requests": 0})) == ["warmup_inside"]
    assert names(asked=json.dumps({"warmup_requests": 8})) == []


def text_of(folder: Path, rates: list[float], **columns: Any) -> str:
    stored = Stored(folder)
    cell = stored.cell("vllm", settings={"kv_dtype": "fp8"})
    for boot, rate in enumerate(rates):
        load = {"load": "random@c8", "output_tokens_per_s": rate}
        own = {name: given[boot] for name, given in columns.items()}
        stored.boot(cell, boot, [load], **{"kv_tokens": 60_000, **own})
    return report(stored.read(), names=["settings", "throughput", "phases"])


def test_a_drift_over_blocks_is_told_and_a_steady_series_is_not(tmp_path: Path) -> None:
    draw = random.Random(1)
    noise = [1 + draw.gauss(0, 0.002) for _ in range(8)]
    steady = [800 * one for one in noise]
    falling = [800 * one * (1 - 0.01 * boot) for boot, one in enumerate(noise)]
    assert "drift_over_blocks" not in text_of(tmp_path / "a", steady)
    assert "drift_over_blocks" in text_of(tmp_path / "b", falling)


def test_noise_drifts_in_about_one_series_of_a_hundred() -> None:
    draw = random.Random(2)
    named = 0
    for _ in range(2000):
        found = over_blocks(range(8), [800 * (1 + draw.gauss(0, 0.05)) for _ in range(8)])
        assert isinstance(found, Drift)
        named += found.named
    assert named <= 34  # 20 expected; 34 is their 99.9 % quantile
    assert isinstance(over_blocks(range(5), [1.0] * 5), Refusal)


def test_a_setting_that_nothing_shows_and_a_cold_first_boot_are_told(tmp_path: Path) -> None:
    text = text_of(tmp_path, [800.0, 801.0], compile_cache=["cold", "warm"])
    assert "setting_not_observed: vllm: kv_dtype = fp8" in text
    assert "first_boot_cold: vllm boot 0" in text


def test_boots_of_other_builds_and_clients_are_held_apart_and_said_to_be(tmp_path: Path) -> None:
    builds = text_of(tmp_path / "a", [800.0, 900.0], build_id=["b0", "b1"])
    assert "its 2 boots are of 2 kinds by build" in builds
    floors = text_of(tmp_path / "b", [800.0, 900.0], floor_itl_error_p99_s=[0.0002, 0.02])
    assert "2 kinds by client floor ms: 0.200 in boot 0; 20 in boot 1" in floors
    alike = text_of(tmp_path / "c", [800.0, 900.0], floor_itl_error_p99_s=[0.0002, 0.0009])
    assert "client floor" not in alike
    assert "850.0 [800 - 900]" in alike.replace("850 [", "850.0 [")
