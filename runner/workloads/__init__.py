"""What is asked of a server: one file per workload, found by its file name.

A workload turns its own TOML keys and a seed into prompts. When they are sent is not its business
unless the times are part of it (a trace). Adding a workload is adding one file that defines
`WORKLOAD`; a file without one (`lengths`) is shared by the others.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from engines import Chat


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
        token_ids: the prompt; empty for a chat.
        output_tokens: exact output length asked; of a chat that is not `exact` the most it may be.
        chat: what is said instead of token ids; its length in tokens is the server's business.
        keep_answer: the answer is part of the result: its text, and its token ids where it is no
            chat.
        group: what belongs together (a prefix, a session).
        role: part it plays.
        due_s: its own time in the load (a trace); None where the arrival law decides.
        offset_s: added to the time that the arrival law gives it.
        after: number of the prompt, in the order yielded, whose answer must have ended before.
        think_s: how long after that answer it is sent.
        expected_hit_tokens: prompt tokens that are in the prefix cache by construction, if every
            earlier prompt was prefilled before; None where text makes it unknown.
    """

    token_ids: Sequence[int] = ()
    output_tokens: int
    chat: Chat | None = None
    keep_answer: bool = False
    group: str = ""
    role: str = ""
    due_s: float | None = None
    offset_s: float = 0.0
    after: int | None = None
    think_s: float = 0.0
    expected_hit_tokens: int | None = 0


def _token_ids(spec: Any) -> bool:
    """Tell that a workload never chats."""
    return False


def _no_files(spec: Any) -> Mapping[str, Any]:
    """Return that a workload's keys name no files."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of work.

    Attributes:
        name: the word in TOML; the file's name.
        spec: model of its TOML keys.
        prompts: (spec, rng, vocabulary) -> prompts, without end unless a file ends them; the
            caller takes as many as the level needs. The same rng gives the same prompts.
        chats: whether all prompts of a spec are chats; else all are token ids.
        contents: what the files that a spec names hold, by their names as written: a changed file
            is other work.
        times: whether its requests have times of their own (`own`), the level's (`level`), or
            either.
        ends: its prompts end by themselves.
        timed: its latencies and throughput are results; else only its answers are.
        alike: its later requests are drawn as its first are, so that latencies that move tell of
            the server.
    """

    name: str
    spec: type[Spec]
    prompts: Callable[[Any, random.Random, Vocabulary], Iterator[Prompt]]
    chats: Callable[[Any], bool] = _token_ids
    contents: Callable[[Any], Mapping[str, Any]] = _no_files
    times: Literal["level", "own", "either"] = "level"
    ends: bool = False
    timed: bool = True
    alike: bool = False


@functools.cache
def names() -> tuple[str, ...]:
    """Return the names of all workloads, sorted."""
    found = (info.name for info in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in found if hasattr(_module(name), "WORKLOAD")))


def get(name: str) -> Workload:
    """Return the workload of that name.

    Raises:
        KeyError: there is no file of that name.
    """
    if name not in names():
        raise KeyError(name)
    workload: Workload = _module(name).WORKLOAD
    return workload


def _module(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")
