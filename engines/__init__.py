"""What is known about other people's servers: one module or package per engine.

Plain values and pure functions: nothing here opens a socket, a file or a process (the simulated
engine's server is the one exception), and nothing here imports `runner`.

An engine is a module of this package that defines `ENGINE`. Its file name is its registration.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Version = tuple[int, ...]
"""A release as numbers, `0.10.2.post1` -> `(0, 10, 2)`: all that flags and formats depend on."""

Value = int | float | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing a server said of itself. Its unit and meaning stand in `engines.facts`.

    Attributes:
        name: a name of the catalogue `engines.facts.CATALOGUE`.
        value: in the catalogue's unit.
        source: `log`, `metrics`, `server_info`, `models`, `version` or `load`.
        rank: which part of the server said it, as `DP1 TP0`; empty where there is only one.
        line: number of the log line, from 1; None where the source has no lines.
        text: the line or field it was read from, shortened to 300 characters.
    """

    name: str
    value: Value
    source: str
    rank: str = ""
    line: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One line of a Prometheus page, parsed by the caller."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What one server is asked to serve, in this project's words.

    Attributes:
        model: the model as the server will see it, a hub name or a path inside its container.
        name: the name it answers to in `/v1/models`.
        host: the address it binds.
        port: the port it binds.
        settings: engine-neutral intents, by `engines.settings.CATALOGUE`.
        flags: raw flags of this engine, without dashes; `True` is a bare flag.
        version: the server's release where the image or program tells, else None.
        gpus: how many GPUs it gets; 0 on a CPU image.
        revision: the model's commit, where one was resolved.
    """

    model: str
    name: str
    host: str
    port: int
    settings: Mapping[str, object]
    flags: Mapping[str, object] = field(default_factory=dict)
    version: Version | None = None
    gpus: int = 1
    revision: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a server is started with.

    Attributes:
        argv: every flag, without the program.
        env: environment the flags need (never secrets).
        refusals: why this engine or version cannot express what is asked; any makes the cell
            inapplicable.
        notes: sentences a reader of the plan should see (one number meaning two things, ...).
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A page of the live server that states facts.

    `read` takes the page's text and returns what it says; a page of an unknown form gives no facts.
    A Prometheus page is read by `Engine.metrics_facts` instead.
    """

    path: str
    source: str
    read: Callable[[str], tuple[Fact, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """How the prefix cache is emptied.

    Attributes:
        method: HTTP method.
        path: where it is asked.
        done: judges status and body: True when it was emptied, False when it was not, None when
            the answer cannot tell.
        sure_from: release from which a True of `done` can be believed; before it nobody can tell.
    """

    method: str
    path: str
    done: Callable[[int, str], bool | None]
    sure_from: Version = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The sampling every request spells out, so that no server default changes the work."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    repetition_penalty: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One chat, before it is spelled in an engine's words.

    Attributes:
        messages: what was said, each with `role` and `content`.
        schema: JSON schema that the answer is constrained to; None leaves it free.
        thinking: False turns it off in models that think, None leaves it as the model has it.
        exact: the answer has exactly the output tokens asked; else they are the most it may have.
    """

    messages: tuple[Mapping[str, str], ...]
    schema: Mapping[str, object] | None = None
    thinking: bool | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Everything the runner needs to know of one kind of server.

    Attributes:
        name: the word for it in experiment files, rows and tables.
        port: where it listens in a container.
        image_program: what precedes the flags in `docker run IMAGE ...`; empty where the image's
            own entrypoint is the server.
        local_program: what precedes the flags when it is started as a local process.
        known: oldest and newest release whose flags and log formats were read.
        arguments: flags for what is asked.
        completion: the JSON body of one streaming completion over token ids, with exact lengths:
            (model name, token ids, output tokens, sampling) -> body.
        completions_path: where it is posted.
        chat: the JSON body of one streaming chat: (model name, chat, output tokens, sampling) ->
            body; None where it has no chats.
        chat_path: where that is posted.
        token_ids: keys of a completion's body that make its stream carry the token ids of the
            answer; empty where nothing does. A chat's answer is text (SGLang refuses to stream
            the token ids of one).
        probes: pages that state facts; of several with one source the later are older names.
        metrics_path: the Prometheus page; None where there is none.
        metrics_facts: what its samples state.
        counters: the running totals and gauges of a Prometheus page under this project's names
            (`engines.facts.COUNTERS`); a name is absent when the page does not tell.
        flush: how the prefix cache is emptied; None where it cannot be.
        expected: facts that a boot which became ready must have stated; a missing one is a doubt.
        chunk_counts: what its `chunk_tokens` counts, for people: engines differ in it.
        version_of_image: the release an image reference names, None where it does not tell.
    """

    name: str
    port: int
    image_program: tuple[str, ...]
    local_program: tuple[str, ...]
    known: tuple[Version, Version]
    arguments: Callable[[Served], Arguments]
    completion: Callable[[str, Sequence[int], int, Sampling], dict[str, object]]
    completions_path: str = "/v1/completions"
    chat: Callable[[str, Chat, int, Sampling], dict[str, object]] | None = None
    chat_path: str = "/v1/chat/completions"
    token_ids: Mapping[str, object] = field(default_factory=dict)
    probes: tuple[Probe, ...] = ()
    metrics_path: str | None = "/metrics"
    metrics_facts: Callable[[Iterable[Sample]], tuple[Fact, ...]] = lambda samples: ()
    counters: Callable[[Iterable[Sample]], dict[str, float]] = lambda samples: {}
    flush: Flush | None = None
    expected: tuple[str, ...] = ()
    chunk_counts: str = ""
    version_of_image: Callable[[str], Version | None] = lambda image: None


def names() -> tuple[str, ...]:
    """Return the names of all engines, sorted."""
    found = (info.name for info in pkgutil.iter_modules(__path__))
    return tuple(sorted(name for name in found if hasattr(_module(name), "ENGINE")))


def get(name: str) -> Engine:
    """Return the engine of that name.

    Raises:
        KeyError: no module of this package defines it.
    """
    if name not in names():
        raise KeyError(name)
    engine: Engine = _module(name).ENGINE
    return engine


def version_of(text: str) -> Version | None:
    """Return the release that a version string starts with, `v0.10.2.post1+cu128` -> (0, 10, 2)."""
    numbers = []
    for part in text.lstrip("v").split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers) or None


def _module(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")
