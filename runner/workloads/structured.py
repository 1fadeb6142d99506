"""Answers as JSON: constrained to a schema by the server, or only asked for in the prompt.

Both arms say the same words. A number of its own in each schema's title makes the server compile
its grammar anew in every load, so that cold and warm grammars are told apart.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic import Field, PositiveInt, field_validator

from engines import Chat
from runner.workloads import Prompt, Spec, Vocabulary, Workload

FOLDER: Final = Path(__file__).parent / "schemas"
"""Where the schemas that come with the runner are, one file each."""

COLD = "cold"
WARM = "warm"


class Structured(Spec):
    """What is asked for, and who sees to it.

    Attributes:
        schemas: names of schemas that come with the runner, or paths of JSON files.
        constrained: the server constrains the answer; else only the prompt asks for it.
        output_tokens: the most an answer may have.
        thinking: whether a model that thinks does so.
        fresh_grammar: every request has a schema that the server has not seen, so every grammar
            is compiled.
    """

    schemas: tuple[str, ...] = Field(default=("person",), min_length=1)
    constrained: bool
    output_tokens: PositiveInt
    thinking: bool = False
    fresh_grammar: bool = False

    @field_validator("schemas")
    @classmethod
    def _can_be_read(cls, schemas: tuple[str, ...]) -> tuple[str, ...]:
        for name in schemas:
            schema_of(name)
        return schemas


def schema_of(name: str) -> dict[str, Any]:
    """Return a schema by its name, or by the path of its file.

    Raises:
        ValueError: there is none, or it is no JSON schema (draft 2020-12).
    """
    from jsonschema import Draft202012Validator, SchemaError

    path = Path(name).expanduser() if name.endswith(".json") else FOLDER / f"{name}.json"
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
    except OSError as error:
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.json")))
        message = f"no schema {name!r}: name one of {known}, or give the path of a .json file"
        raise ValueError(message) from error
    except ValueError as error:
        raise ValueError(f"{path}: it is not JSON: {error}") from error
    except SchemaError as error:
        raise ValueError(f"{path}: it is no JSON schema: {error.message}") from error
    if not isinstance(schema, dict):
        raise ValueError(f"{path}: a schema that constrains an answer is an object")
    return schema


def prompts(spec: Structured, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield chats without end, the schemas in turn; a schema is a group.

    The first of a schema has the role `cold`, for its grammar is compiled; others are `warm`.
    """
    del vocabulary
    schemas = {Path(name).stem: _titled(schema_of(name), rng) for name in spec.schemas}
    used: set[str] = set()
    while True:
        for name, schema in schemas.items():
            asked = _titled(schema, rng) if spec.fresh_grammar else schema
            cold = spec.fresh_grammar or name not in used
            used.add(name)
            yield Prompt(
                output_tokens=spec.output_tokens,
                chat=Chat(
                    messages=_messages(asked, rng),
                    schema=asked if spec.constrained else None,
                    thinking=spec.thinking,
                ),
                keep_answer=True,
                group=name,
                role=COLD if cold else WARM,
                expected_hit_tokens=None,
            )


def _titled(schema: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return schema | {"title": f"answer-{rng.getrandbits(64):016x}"}


def _messages(schema: dict[str, Any], rng: random.Random) -> tuple[dict[str, str], ...]:
    """Return the words; they begin with what differs, so that no long prefix is shared."""
    text = (
        f"Case {rng.getrandbits(64):016x}: invent the record of this case. Answer with one JSON"
        f" object that obeys this JSON schema, and nothing else: {json.dumps(schema)}"
    )
    return ({"role": "user", "content": text},)


def _always(spec: Structured) -> bool:
    del spec
    return True


def contents(spec: Structured) -> dict[str, Any]:
    """Return each schema by its name as written."""
    return {name: schema_of(name) for name in spec.schemas}


WORKLOAD = Workload(
    name="structured", spec=Structured, prompts=prompts, chats=_always, contents=contents
)
