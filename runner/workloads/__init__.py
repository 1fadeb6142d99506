"""What is asked of a server: one file per workload, found by its file name.

A workload turns its own TOML keys and a seed into prompts. When they are sent is not its business
unless the times are part of it (a trace). Adding a workload is adding one file that defines
`WORKLOAD`.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """The TOML keys of a workload: subclasses add fields; unknown keys are complaints."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Token ids that a prompt may use: `low` <= id < `high`, special tokens left out."""

    low: int = 100
    high: int = 2000

    def ids(self, rng: random.Random, count: int) -> list[int]:
        """Return `count` random token ids."""
        return rng.choices(range(self.low, self.high), k=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request before it is spelled in an engine's words.

    Attributes:
        token_ids: the prompt.
        output_tokens: exact output length asked.
        group: what belongs together (a prefix, a session).
        role: part it plays.
        due_s: its own time in the load (a trace); None where the arrival law decides.
        expected_hit_tokens: prompt tokens that are in the prefix cache by construction.
    """

    token_ids: Sequence[int]
    output_tokens: int
    group: str = ""
    role: str = ""
    due_s: float | None = None
    expected_hit_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of work.

    Attributes:
        name: the word in TOML; the file's name.
        spec: model of its TOML keys.
        prompts: (spec, rng, vocabulary) -> prompts without end; the caller takes as many as the
            level needs. The same rng gives the same prompts.
    """

    name: str
    spec: type[Spec]
    prompts: Callable[[Any, random.Random, Vocabulary], Iterator[Prompt]]


def names() -> tuple[str, ...]:
    """Return the names of all workloads, sorted."""
    return tuple(sorted(info.name for info in pkgutil.iter_modules(__path__)))


def get(name: str) -> Workload:
    """Return the workload of that name.

    Raises:
        KeyError: there is no file of that name.
    """
    if name not in names():
        raise KeyError(name)
    workload: Workload = importlib.import_module(f"{__name__}.{name}").WORKLOAD
    return workload
