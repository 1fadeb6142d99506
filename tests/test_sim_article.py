"""The simulated engine against the article's figures: mechanisms first, then every figure."""

from __future__ import annotations

import dataclasses
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from engines.sim import calibrate, figures, profile, scenarios
from engines.sim.figures import Figure, Figures
from engines.sim.fitting import fitted, quiet

ARTICLE = figures.read(resources.files("runner").joinpath("tables/article.toml").read_text())
CALM = quiet(profile.load(ARTICLE.gpu))
KEPT: dict[Any, scenarios.Measures] = {}
HELD = [figure for figure in ARTICLE.figures if figure.measure != "kv_tokens_seen"]


def simulated(figure: Figure) -> tuple[float, ...]:
    return scenarios.predict(ARTICLE, figure, CALM, KEPT)


def measure(name: str, kv_tokens: int, concurrency: int) -> float:
    figure = Figure(
        experiment="throughput_512",
        engine="vllm",
        measure=name,
        model="Qwen/Qwen3-1.7B",
        settings={"kv_tokens": kv_tokens},
        concurrency=concurrency,
        values=(1.0,),
    )
    return simulated(figure)[0]


@pytest.mark.parametrize("figure", HELD, ids=lambda figure: figure.name)
def test_every_figure_of_the_article_is_met_within_a_quarter(figure: Figure) -> None:
    assert abs(figure.error_ratio(simulated(figure))) <= 0.25


@pytest.mark.parametrize(
    ("experiment", "measure", "limit"),
    [
        ("interference", "victim_itl_max_ms", 0.15),
        ("prefix_cache", "ttft_first_ms", 0.15),
        ("prefix_cache", "ttft_later_ms", 0.15),
        ("throughput_512", "output_tokens_per_s", 0.10),
        ("kv_capacity", "kv_tokens", 0.01),
    ],
)
def test_the_figures_that_name_a_mechanism_are_met_closely(
    experiment: str, measure: str, limit: float
) -> None:
    found = [f for f in HELD if (f.experiment, f.measure) == (experiment, measure)]
    assert found
    for figure in found:
        assert abs(figure.error_ratio(simulated(figure))) <= limit, figure.name


def test_a_fifth_more_kv_memory_moves_ttft_at_64_but_not_at_32() -> None:
    few, many = 22_048, 26_560
    ratio = measure("ttft_p50_ms", few, 64) / measure("ttft_p50_ms", many, 64)
    assert 2.2 <= ratio <= 3.0
    same = measure("ttft_p50_ms", few, 32) / measure("ttft_p50_ms", many, 32)
    assert same == pytest.approx(1.0, abs=0.02)


def small(changed: profile.Profile) -> Figures:
    """Two figures that a changed GPU would have given."""
    load = {"kind": "closed", "input_tokens": 256, "output_tokens": 8, "per_stream": 2}
    cell: dict[str, Any] = {
        "experiment": "small",
        "engine": "vllm",
        "model": "Qwen/Qwen3-1.7B",
        "fit": True,
    }
    asked = [
        Figure(**cell, measure="output_tokens_per_s", concurrency=1, values=(1.0,)),
        Figure(**cell, measure="ttft_p50_ms", concurrency=4, values=(1.0,)),
    ]
    made = dataclasses.replace(
        ARTICLE,
        loads={"small": load},
        figures=tuple(asked),
        search=("bandwidth_bytes_per_s", "flops_per_s"),
    )
    truth = [scenarios.predict(made, figure, quiet(changed)) for figure in asked]
    told = [
        dataclasses.replace(figure, values=values)
        for figure, values in zip(asked, truth, strict=True)
    ]
    return dataclasses.replace(made, figures=tuple(told))


def test_a_fit_finds_the_gpu_that_gave_the_figures() -> None:
    truth = dataclasses.replace(CALM, bandwidth_bytes_per_s=2e11, flops_per_s=4e13)
    found = fitted(small(truth), CALM)
    assert found.calibrated
    assert found.bandwidth_bytes_per_s == pytest.approx(2e11, rel=0.03)
    assert found.flops_per_s == pytest.approx(4e13, rel=0.03)


def test_the_command_says_fitted_or_predicted_and_the_error_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    article = resources.files("runner").joinpath("tables/article.toml").read_text()
    file = tmp_path / "figures.toml"
    file.write_text(article)
    written = tmp_path / "gpu.toml"
    assert calibrate.main([str(file), "--check", "--write", str(written)]) == 0
    out = capsys.readouterr().out
    assert out.count("\nfitted ") == sum(figure.fit for figure in HELD)
    assert out.count("\npredicted ") == sum(not figure.fit for figure in HELD)
    assert profile.load(str(written)) == profile.load(ARTICLE.gpu)


def test_a_figure_far_off_makes_the_command_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    article = resources.files("runner").joinpath("tables/article.toml").read_text()
    file = tmp_path / "figures.toml"
    file.write_text(article.replace("values = [1093]", "values = [109]"))
    assert calibrate.main([str(file), "--check"]) == 1
    assert "FAR" in capsys.readouterr().out
