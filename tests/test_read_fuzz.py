"""Whatever TOML is written, it is planned or refused with a message: never a traceback."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.errors import ExperimentError
from runner.experiment import CellKeys, EngineKeys, Experiment, LoadKeys
from runner.experiment.read import read
from runner.plan import expand
from runner.plan.text import planned

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(EXPERIMENTS.glob("*.toml"))]
QUESTIONS = [text for text in TEXTS if "question" in text]

KEYS = sorted({*Experiment.model_fields, *EngineKeys.model_fields, *LoadKeys.model_fields, "zip"})
WORDS = st.sampled_from(["vllm", "sglang", "random", "docker", "attach", "~x/y", "a b", "", "1GiB"])
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([64, 2**63 - 1, 2**64, 10**30, -(2**63)]),
    st.floats(allow_nan=True, allow_infinity=True),
    WORDS,
    st.text(max_size=6),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def spelled(value: Any) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {spelled(inner)}" for key, inner in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(spelled, value)) + "]"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else str(value) if math.isfinite(value) else "inf"
    # DEL is the one character that JSON leaves bare and TOML refuses
    return json.dumps(value).replace("\x7f", "\\u007f")


def spelled_file(raw: dict[str, Any]) -> str:
    return "\n".join(f"{json.dumps(key)} = {spelled(value)}" for key, value in raw.items())


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draw a real experiment file with one to three values replaced, added or taken away."""
    raw = tomllib.loads(draw(st.sampled_from(QUESTIONS)))
    for _ in range(draw(st.integers(1, 3))):
        mutate(raw, draw)
    return spelled_file(raw)


def mutate(table: Any, draw: st.DrawFn) -> None:
    """Change one value somewhere inside a table or a list."""
    keys = list(table) if isinstance(table, dict) else list(range(len(table)))
    key = draw(st.sampled_from(keys)) if keys else None
    inner = table[key] if key is not None else None
    if isinstance(inner, (dict, list)) and inner and draw(st.integers(0, 3)):
        mutate(inner, draw)
    elif isinstance(table, list):
        table.insert(0, draw(VALUES))
    elif key is None or draw(st.booleans()):
        table[draw(st.sampled_from(KEYS))] = draw(VALUES)
    elif draw(st.booleans()):
        table[key] = draw(VALUES)
    else:
        del table[key]


def plan_or_refuse(text: str, folder: Path, *, rehearse: bool) -> str:
    file = folder / "fuzzed.toml"
    file.write_text(text, encoding="utf-8")
    try:
        experiment = read(file, rehearse=rehearse)
    except ExperimentError as error:
        return str(error)
    if experiment.boots > 20:
        experiment = experiment.model_copy(update={"boots": 20})
    return planned(expand(experiment), {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzed")


FUZZED = settings(suppress_health_check=[HealthCheck.too_slow])


@FUZZED
@given(text=mutated(), rehearse=st.booleans())
def test_a_changed_experiment_is_planned_or_refused(
    folder: Path, text: str, rehearse: bool
) -> None:
    assert plan_or_refuse(text, folder, rehearse=rehearse)


@FUZZED
@given(raw=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_a_random_file_is_refused(folder: Path, raw: dict[str, Any]) -> None:
    assert "fuzzed.toml" in plan_or_refuse(spelled_file(raw), folder, rehearse=False)


@FUZZED
@given(text=st.text(max_size=60))
def test_a_random_text_is_refused(folder: Path, text: str) -> None:
    assert "fuzzed.toml" in plan_or_refuse(text, folder, rehearse=False)


@FUZZED
@given(keys=st.dictionaries(st.sampled_from(sorted(CellKeys.model_fields)), VALUES, max_size=4))
def test_random_keys_of_a_cell_are_planned_or_refused(folder: Path, keys: dict[str, Any]) -> None:
    text = QUESTIONS[0].replace("[common]", f"[common]\n{spelled_file(keys)}")
    assert plan_or_refuse(text, folder, rehearse=False)
