"""A GPU as far as serving speed and memory go: read from `gpus/NAME.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What one engine adds to the GPU's own work.

    Attributes:
        step_s: launching a step, whatever is in it.
        request_s: taking a request in (HTTP, tokenizer) before it can be scheduled.
        sequence_s: sampling and bookkeeping of one sequence in a step.
        reserve_bytes: memory the engine keeps beside weights and KV.
        width_bytes: activation memory for each token of the largest chunk and unit of the MLP.
        fp8_speedup: how much faster than in two bytes the matrices of a prefill are in fp8.
        working_bytes: memory that serving takes beside all that, before the first grammar.
        kv_sd_bytes: boot-to-boot spread of the memory left for KV.
        kv_step_bytes: that memory changes by multiples of this; most boots are alike.
        cold_bytes: memory a boot with a cold compile cache loses.
        ready_s: start to ready with warm caches.
        cold_ready_s: what a cold compile cache adds to that.
    """

    step_s: float = 0.0
    request_s: float = 0.0
    sequence_s: float = 0.0
    reserve_bytes: float = 0.0
    width_bytes: float = 0.0
    fp8_speedup: float = 1.0
    working_bytes: float = 0.0
    kv_sd_bytes: float = 0.0
    kv_step_bytes: float = 0.0
    cold_bytes: float = 0.0
    ready_s: float = 30.0
    cold_ready_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One GPU.

    Attributes:
        name: the name engines would print.
        calibrated: fitted to measurements; otherwise from public figures alone.
        source: where its figures come from.
        memory_bytes: memory an application sees.
        context_bytes: memory a process loses before it loads anything.
        bandwidth_bytes_per_s: memory bandwidth that decoding reaches.
        flops_per_s: speed that the matrices of a prefill reach in two-byte weights.
        attention_flops_per_s: speed that attention of a prefill reaches.
        constrained_s: what one constrained sequence adds to a step (its token mask).
        grammar_s: compiling one grammar, once per grammar.
        grammar_bytes: memory that the first constrained request needs.
        noise_ratio: spread of one step's time.
        engines: overheads by engine.
        errors: largest error of each measure, as a share, among the figures it was held against.
    """

    name: str
    calibrated: bool = False
    source: str = ""
    memory_bytes: int
    context_bytes: int = 300 * MIB
    bandwidth_bytes_per_s: float
    flops_per_s: float
    attention_flops_per_s: float
    constrained_s: float = 20e-6
    grammar_s: float = 0.05
    grammar_bytes: int = 200 * MIB
    noise_ratio: float = 0.005
    engines: Mapping[str, Overheads]
    errors: Mapping[str, float] = field(default_factory=dict)


def names() -> tuple[str, ...]:
    """Return the names of the profiles that come with the package, sorted."""
    folder = resources.files(__package__).joinpath("gpus")
    found = (Path(entry.name) for entry in folder.iterdir())
    return tuple(sorted(entry.stem for entry in found if entry.suffix == ".toml"))


def load(name: str) -> Profile:
    """Return a profile by its name in the package, or from a TOML file's path.

    Raises:
        ValueError: there is no such profile; the message lists those there are.
    """
    if name.endswith(".toml"):
        return parse(Path(name).read_text())
    if name not in names():
        raise ValueError(f"no GPU profile {name!r}; there are {', '.join(names())}")
    return parse(resources.files(__package__).joinpath("gpus", f"{name}.toml").read_text())


def parse(text: str) -> Profile:
    """Return the profile that a TOML text describes."""
    keys: dict[str, Any] = tomllib.loads(text)
    engines = {name: Overheads(**given) for name, given in keys.pop("engines").items()}
    return Profile(**keys, engines=engines)
