"""Structured answers: the words, the schemas, and which grammar is compiled when."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from runner import workloads
from runner.experiment import LoadKeys
from runner.experiment.levels import loads_of
from runner.workloads import Prompt, Vocabulary
from runner.workloads.structured import FOLDER, schema_of

KIND = workloads.get("structured")


def some(count: int, seed: int = 1, **keys: Any) -> list[Prompt]:
    spec = KIND.spec.model_validate({"constrained": True, "output_tokens": 99, **keys})
    return list(islice(KIND.prompts(spec, random.Random(seed), Vocabulary()), count))


def words(prompt: Prompt) -> str:
    assert prompt.chat is not None
    return prompt.chat.messages[-1]["content"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_schema_that_comes_along_is_a_schema_of_an_object(path: Path) -> None:
    schema = schema_of(path.stem)
    assert schema["type"] == "object"
    assert not Draft202012Validator(schema).is_valid([])


def test_the_recursive_schema_takes_trees_of_any_depth_and_nothing_else() -> None:
    judge = Draft202012Validator(schema_of("tree"))
    leaf = {"name": "a", "children": []}
    assert judge.is_valid({"root": {"name": "b", "children": [{"name": "c", "children": [leaf]}]}})
    assert not judge.is_valid({"root": {"name": "b", "children": [{"name": "c"}]}})


def test_answers_of_the_finite_schema_cannot_grow_without_end() -> None:
    text = json.dumps(schema_of("finite"))
    assert '"string"' not in text
    assert '"number"' not in text
    assert '"integer"' not in text


def test_the_first_of_each_schema_is_cold_and_later_ones_are_warm() -> None:
    prompts = some(6, schemas=["person", "tree"])
    assert [p.group for p in prompts] == ["person", "tree"] * 3
    assert [p.role for p in prompts] == ["cold", "cold", "warm", "warm", "warm", "warm"]


def test_every_load_compiles_its_grammars_anew() -> None:
    first, second = some(1, seed=1)[0].chat, some(1, seed=2)[0].chat
    assert first is not None
    assert second is not None
    assert first.schema != second.schema
    assert some(3)[0].chat.schema == some(3)[2].chat.schema  # type: ignore[union-attr]


def test_a_fresh_grammar_is_one_for_every_request() -> None:
    prompts = some(5, fresh_grammar=True)
    titles = {p.chat.schema["title"] for p in prompts if p.chat and p.chat.schema}
    assert len(titles) == 5
    assert {p.role for p in prompts} == {"cold"}


def test_words_begin_with_what_differs_and_carry_the_schema() -> None:
    texts = [words(prompt) for prompt in some(10)]
    assert len({text[:21] for text in texts}) == 10
    assert all('"occupation"' in text for text in texts)


def test_without_a_constraint_the_same_words_are_asked_with_no_schema() -> None:
    asked, constrained = some(3, constrained=False), some(3)
    assert [words(p) for p in asked] == [words(p) for p in constrained]
    assert all(p.chat and p.chat.schema is None for p in asked)
    assert all(p.chat and p.chat.schema is not None for p in constrained)


def test_a_chat_thinks_only_when_asked_and_ends_by_itself() -> None:
    quiet, loud = some(1)[0], some(1, thinking=True)[0]
    assert quiet.chat is not None
    assert loud.chat is not None
    assert (quiet.chat.thinking, loud.chat.thinking) == (False, True)
    assert not quiet.chat.exact
    assert quiet.keep_answer
    assert quiet.expected_hit_tokens is None
    assert KIND.chats(None)


def test_a_schema_of_ones_own_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"type": "object", "properties": {"x": {"const": 1}}}')
    prompt = some(1, schemas=[str(path)])[0]
    assert prompt.group == "mine"
    assert '"const": 1' in words(prompt)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "name one of finite, order, person, tree"),
        ("{", "not JSON"),
        ('{"type": "objekt"}', "no JSON schema"),
        ("true", "is an object"),
    ],
)
def test_a_schema_that_is_none_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValidationError, match=said):
        some(1, schemas=[str(path)])


def test_a_changed_schema_file_is_another_question(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    keys = LoadKeys.model_validate(
        {
            "workload": "structured",
            "schemas": [str(file), "person"],
            "constrained": True,
            "output_tokens": 9,
            "concurrency": 1,
            "requests": 2,
        }
    )
    asked = []
    for schema in ({"type": "object"}, {"type": "object", "required": ["a"]}):
        file.write_text(json.dumps(schema))
        [load] = loads_of(keys)
        asked.append(load.asked)
        assert load.asked["contents"][str(file)] == schema
    assert asked[0] != asked[1]
    assert {**asked[0], "contents": None} == {**asked[1], "contents": None}
