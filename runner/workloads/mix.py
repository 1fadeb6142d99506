"""Several workloads in one load, blended by weight under one arrival law."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    ValidationError,
    model_validator,
)

from runner import workloads
from runner.workloads import Prompt, Spec, Vocabulary, Workload


class Part(BaseModel):
    """One of the blended: `workload`, its `weight`, and that workload's own keys beside them.

    Attributes:
        workload: a file of `runner.workloads`.
        name: tells two parts of one workload apart; it precedes their groups.
        weight: share of the requests, relative to the other parts.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    workload: str
    name: str | None = None
    weight: PositiveFloat = 1.0

    @model_validator(mode="after")
    def _own_keys(self) -> Self:
        if self.workload not in workloads.names() or self.workload == "mix":
            known = ", ".join(name for name in workloads.names() if name != "mix")
            raise ValueError(f"unknown workload {self.workload!r}; known here: {known}")
        try:
            self.spec()
        except ValidationError as error:
            raise ValueError("; ".join(map(_sentence, error.errors()))) from error
        return self

    def spec(self) -> Any:
        """Return the part's own keys as its workload reads them."""
        return workloads.get(self.workload).spec.model_validate(self.model_extra or {})

    def prompts(self, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
        """Return the part's own prompts, their groups preceded by its name."""
        name = self.name or self.workload
        for prompt in workloads.get(self.workload).prompts(self.spec(), rng, vocabulary):
            yield replace(prompt, group=f"{name}/{prompt.group}" if prompt.group else name)

    @property
    def chats(self) -> bool:
        """Tell whether its prompts are chats."""
        return workloads.get(self.workload).chats(self.spec())


class Mix(Spec):
    """The parts, at least two; all chats or none, for one load has one path."""

    parts: tuple[Part, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _told_apart_on_one_path(self) -> Self:
        names = [part.name or part.workload for part in self.parts]
        if len(set(names)) < len(names):
            raise ValueError("two parts bear one name; tell them apart with `name = ...`")
        if len({part.chats for part in self.parts}) > 1:
            raise ValueError("chats and token-id prompts cannot be mixed: one load has one path")
        return self


def prompts(spec: Mix, rng: random.Random, vocabulary: Vocabulary) -> Iterator[Prompt]:
    """Yield prompts of all parts, each drawn by weight, until one of the parts ends.

    A part's own times are dropped: one arrival law decides. So are its waits for an answer.
    """
    sources = [
        part.prompts(random.Random(rng.getrandbits(64)), vocabulary)  # noqa: S311 - no secrets
        for part in spec.parts
    ]
    weights = [part.weight for part in spec.parts]
    while True:
        prompt = next(rng.choices(sources, weights)[0], None)
        if prompt is None:
            return
        yield replace(prompt, due_s=None, offset_s=0.0, after=None, think_s=0.0)


def _chats(spec: Mix) -> bool:
    return spec.parts[0].chats


def contents(spec: Mix) -> dict[str, Any]:
    """Return what the files of all parts hold."""
    found: dict[str, Any] = {}
    for part in spec.parts:
        found |= workloads.get(part.workload).contents(part.spec())
    return found


def _sentence(finding: Any) -> str:
    place = ".".join(map(str, finding["loc"]))
    return f"{place}: {finding['msg']}" if place else str(finding["msg"])


WORKLOAD = Workload(name="mix", spec=Mix, prompts=prompts, chats=_chats, contents=contents)
