"""What the simulated engine writes when a schema constrains it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from engines.sim.writing import SchemaError, json_tokens
from runner.experiment.read import read
from runner.experiment.stand_in import stood_in
from runner.plan import expand
from runner.run import execute
from runner.stored.frames import results
from runner.tables import structured
from runner.tables.derived import derived
from runner.workloads.structured import FOLDER, schema_of
from runner.world import World

SCHEMAS = sorted(file.stem for file in FOLDER.glob("*.json"))
TEXT = {"type": "string"}
RECURSIVE: dict[str, Any] = {
    "$defs": {"list": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/cell"}]}, "cell": {}},
    "$ref": "#/$defs/list",
}
RECURSIVE["$defs"]["cell"] = {
    "type": "object",
    "properties": {"rest": {"$ref": "#/$defs/list"}},
    "required": ["rest"],
}


@pytest.mark.parametrize("name", SCHEMAS)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_answer_obeys_the_schema_and_ends(name: str, seed: int) -> None:
    schema = schema_of(name)
    tokens = json_tokens(schema, seed)
    assert Draft202012Validator(schema).is_valid(json.loads("".join(tokens)))
    assert len(tokens) < 512
    assert tokens == json_tokens(schema, seed)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": [1, "a"]},
        {"type": ["integer", "null"], "exclusiveMinimum": 3, "maximum": 4},
        {"type": "number", "minimum": 0.5, "maximum": 0.75},
        {"type": "string", "minLength": 30},
        {"type": "string", "pattern": "^[A-Z]{2}-\\d{1,3}$"},
        {"type": "array", "minItems": 2, "items": TEXT},
        {"type": "object", "required": ["of any kind"]},
        {"oneOf": [{"type": "boolean"}, {"type": "null"}]},
        RECURSIVE,
    ],
)
@given(seed=st.integers(0, 2**32 - 1))
def test_schemas_of_ones_own_are_obeyed_too(schema: dict[str, Any], seed: int) -> None:
    said = json.loads("".join(json_tokens(schema, seed)))
    assert Draft202012Validator(schema).is_valid(said)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 3},
        {"type": "string", "pattern": "^(a|b){3}$"},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"$ref": "#/$defs/nothing"},
        {"$ref": "#"},
    ],
)
def test_a_schema_that_no_answer_is_known_to_is_refused_rather_than_broken(
    schema: dict[str, Any],
) -> None:
    with pytest.raises(SchemaError):
        json_tokens(schema, 1)


FILE = """
question = "Do constrained answers obey?"
boots = 1
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8
[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
memory = { kv_tokens = 8192 }
[engines.sglang]
image = "lmsysorg/sglang:v0.5.21"
memory = { kv_tokens = 8192 }
[[loads]]
name = "asked"
workload = "structured"
constrained = false
schemas = ["person", "order", "tree"]
output_tokens = 60
concurrency = 4
requests = 30
[[loads]]
name = "constrained"
workload = "structured"
constrained = true
schemas = ["person", "order", "tree"]
output_tokens = 60
concurrency = 4
requests = 30
"""


def test_without_a_server_constrained_answers_are_valid_unless_cut_and_free_ones_unknown(
    tmp_path: Path,
) -> None:
    path = tmp_path / "obeys.toml"
    path.write_text(FILE)
    world = World(nvml=lambda: None, sweep=lambda kinds: ())
    found = results(execute(expand(stood_in(read(path))), world, tmp_path / "results").folder)
    loads = derived(found, structured.WORKLOADS, structured.figures)
    constrained = loads[loads.load == "constrained@c4"]
    assert list(constrained.valid_percent) == [100.0, 100.0]
    assert constrained.finished_percent.between(10, 90).all()
    free = loads[loads.load == "asked@c4"]
    assert list(free.json_percent) == [0.0, 0.0]
    shown = structured.build(found)
    assert shown is not None
    by_load = shown.frame.set_index(["cell", "load"])["valid %"]
    assert [by_load["vllm", "asked@c4"], by_load["vllm", "constrained@c4"]] == [(None,), (100.0,)]
