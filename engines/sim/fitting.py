"""Fits a GPU profile to measured figures: memory and start-up by arithmetic, times by search."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from scipy.optimize import least_squares

from engines.sim import scenarios
from engines.sim.figures import Figure, Figures
from engines.sim.profile import Overheads, Profile

SEARCHED: Final = (
    "bandwidth_bytes_per_s",
    "flops_per_s",
    "attention_flops_per_s",
    "step_s",
    "sequence_s",
    "vllm.request_s",
    "sglang.request_s",
    "vllm.fp8_speedup",
    "sglang.fp8_speedup",
)
"""What is searched for. A name with an engine is that engine's; `step_s` and `sequence_s` are one
number for both, so that what differs between the engines comes from how they schedule. A file of
figures may choose others by `search`."""

REACH: Final = math.log(4)
"""How far from the profile it began with the search may go, as a logarithm."""

DIRECT: Final = ("kv_tokens", "kv_tokens_seen", "ready_first_s", "ready_again_s")


def fitted(figures: Figures, start: Profile) -> Profile:
    """Return a profile that fits the figures marked so, beginning from another."""
    profile = _startup(figures, _memory(figures, start))
    timed = [f for f in figures.figures if f.fit and f.measure not in DIRECT]
    wanted = figures.search or SEARCHED
    names = [name for name in wanted if any(_touches(name, figure) for figure in timed)]
    if not timed:
        return profile

    def misses(logs: Any) -> list[float]:
        tried = _changed(profile, dict(zip(names, map(math.exp, logs), strict=True)))
        kept: dict[Any, scenarios.Measures] = {}
        found = [scenarios.predict(figures, figure, quiet(tried), kept) for figure in timed]
        return [math.log1p(f.error_ratio(x)) for f, x in zip(timed, found, strict=True)]

    first = [math.log(max(_value(profile, name), 1e-9)) for name in names]
    solved = least_squares(
        misses,
        first,
        bounds=([value - REACH for value in first], [value + REACH for value in first]),
        diff_step=[0.01] * len(first),
        loss="soft_l1",
        f_scale=0.1,
        max_nfev=30,
    )
    found = dict(zip(names, map(math.exp, solved.x), strict=True))
    return dataclasses.replace(_changed(profile, found), calibrated=True)


def quiet(profile: Profile) -> Profile:
    """Return a profile without chance."""
    engines = {name: dataclasses.replace(o, kv_sd_bytes=0.0) for name, o in profile.engines.items()}
    return dataclasses.replace(profile, noise_ratio=0.0, engines=engines)


def _touches(name: str, figure: Figure) -> bool:
    engine, dot, field = name.partition(".")
    if dot and field == "fp8_speedup":
        return figure.engine == engine and "FP8" in figure.model.upper()
    return not dot or figure.engine == engine


def _value(profile: Profile, name: str) -> float:
    engine, dot, field = name.partition(".")
    if dot:
        return float(getattr(profile.engines[engine], field))
    holder = profile if hasattr(profile, name) else next(iter(profile.engines.values()))
    return float(getattr(holder, name))


def _changed(profile: Profile, values: Mapping[str, float]) -> Profile:
    own: dict[str, Any] = {n: value for n, value in values.items() if hasattr(profile, n)}
    engines = {
        engine: _overheads(overheads, engine, values)
        for engine, overheads in profile.engines.items()
    }
    return dataclasses.replace(profile, **own, engines=engines)


def _overheads(overheads: Overheads, engine: str, values: Mapping[str, float]) -> Overheads:
    mine = {name.removeprefix(f"{engine}."): value for name, value in values.items()}
    return dataclasses.replace(
        overheads, **{name: value for name, value in mine.items() if hasattr(overheads, name)}
    )


def _memory(figures: Figures, profile: Profile) -> Profile:
    """Return the profile whose memory gives the KV capacities: a token missed is its bytes."""
    for figure in figures.figures:
        if not figure.fit or not figure.measure.startswith("kv_tokens"):
            continue
        twin = scenarios.twin_of(figures, figure, figure.engine, quiet(profile), cold=False)
        token_bytes = twin.memory.token_bytes
        change = _MEMORY[figure.engine, figure.measure]
        profile = change(profile, figure, twin.memory.kv_tokens, token_bytes)
    return profile


def _vllm_kv(profile: Profile, figure: Figure, tokens: int, token_bytes: int) -> Profile:
    own = profile.engines["vllm"]
    missed = (tokens - figure.values[-1]) * token_bytes
    cold_bytes = (figure.values[-1] - figure.values[0]) * token_bytes
    return _with(profile, "vllm", reserve_bytes=own.reserve_bytes + missed, cold_bytes=cold_bytes)


def _vllm_spread(profile: Profile, figure: Figure, tokens: int, token_bytes: int) -> Profile:
    high = figure.range[1] if figure.range else max(figure.values)
    step = (high - tokens) * token_bytes
    # most boots were alike: two in three draws of a normal law fall in the middle step
    return _with(profile, "vllm", kv_step_bytes=step, kv_sd_bytes=step / 2)


def _sglang_kv(profile: Profile, figure: Figure, tokens: int, token_bytes: int) -> Profile:
    own = profile.engines["sglang"]
    missed = (tokens - figure.values[-1]) * token_bytes
    return _with(profile, "sglang", reserve_bytes=own.reserve_bytes + missed)


_MEMORY: Final[Mapping[tuple[str, str], Callable[[Profile, Figure, int, int], Profile]]] = {
    ("vllm", "kv_tokens"): _vllm_kv,
    ("vllm", "kv_tokens_seen"): _vllm_spread,
    ("sglang", "kv_tokens"): _sglang_kv,
}


def _startup(figures: Figures, profile: Profile) -> Profile:
    found = {(f.engine, f.measure): f for f in figures.figures if f.fit}
    for engine in profile.engines:
        again, first = (found.get((engine, f"ready_{which}_s")) for which in ("again", "first"))
        if again is None or first is None:
            continue
        again_s = sum(again.range) / 2 if again.range else again.values[-1]
        cold_s = first.values[0] - again_s
        profile = _with(profile, engine, ready_s=again_s, cold_ready_s=cold_s)
    return profile


def _with(profile: Profile, engine: str, **changes: float) -> Profile:
    changed = dataclasses.replace(profile.engines[engine], **changes)
    return dataclasses.replace(profile, engines={**profile.engines, engine: changed})
