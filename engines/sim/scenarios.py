"""The loads that figures were measured under, run on the simulated engine without sockets."""

from __future__ import annotations

import random
import statistics
from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final

from engines.sim.dialects import boot
from engines.sim.figures import Figure, Figures
from engines.sim.life import startup_s
from engines.sim.offline import Timeline, closed_loop, open_loop
from engines.sim.options import Simulate
from engines.sim.profile import Profile
from engines.sim.source import APART_S, TURN_S, Ask
from engines.sim.twin import Twin

Measures = Mapping[str, float]

_FLAGS: Final[Mapping[str, Mapping[str, str]]] = {
    "vllm": {
        "chunk_tokens": "--max-num-batched-tokens {}",
        "fraction": "--gpu-memory-utilization {}",
        "weights": "--quantization {}",
        "no prefix_cache": "--no-enable-prefix-caching",
        "mixed_chunk": "",
    },
    "sglang": {
        "chunk_tokens": "--chunked-prefill-size {}",
        "fraction": "--mem-fraction-static {}",
        "weights": "--quantization {}",
        "no prefix_cache": "--disable-radix-cache",
        "mixed_chunk": "--enable-mixed-chunk",
    },
}


def predict(
    figures: Figures, figure: Figure, profile: Profile, cache: dict[Any, Measures] | None = None
) -> tuple[float, ...]:
    """Return what the simulated engine gives for a figure: a value per restart it states.

    Restarts after the first are alike here: what differs between them is chance, and a figure
    says nothing of it. `cache` keeps scenarios that several figures share.
    """
    kept = {} if cache is None else cache
    restarts = 1 if figure.range or len(figure.values) == 1 else len(figure.values)
    cold = [number == 0 for number in range(restarts)] if restarts > 1 else [False]
    return tuple(_value(figures, figure, profile, kept, is_cold) for is_cold in cold)


def _value(
    figures: Figures, figure: Figure, profile: Profile, kept: dict[Any, Measures], cold: bool
) -> float:
    measure, slash, other = figure.measure.partition("_over_")
    if not slash or other == "free_ratio":
        return _measures(figures, figure, figure.engine, profile, kept, cold)[figure.measure]
    engine = other.removesuffix("_ratio")
    own = _measures(figures, figure, figure.engine, profile, kept, cold)[measure]
    return own / _measures(figures, figure, engine, profile, kept, cold)[measure]


def _measures(
    figures: Figures,
    figure: Figure,
    engine: str,
    profile: Profile,
    kept: dict[Any, Measures],
    cold: bool,
) -> Measures:
    load = figures.loads.get(figure.experiment) or figures.loads["throughput_512"]
    kind = "boot" if figure.measure.startswith(("kv_tokens", "ready_")) else load["kind"]
    settings = tuple(sorted(figure.settings.items()))
    key = (kind, tuple(load.items()), engine, figure.model, settings, figure.concurrency, cold)
    if key not in kept:
        twin = twin_of(figures, figure, engine, profile, cold=cold)
        kept[key] = _KINDS[kind](twin, load, figure.concurrency or 1)
    return kept[key]


def twin_of(figures: Figures, figure: Figure, engine: str, profile: Profile, *, cold: bool) -> Twin:
    """Return the twin of a figure's cell, with nothing drawn by chance."""
    setup, settings = figures.setup[engine], dict(figure.settings)
    kv_tokens = settings.pop("kv_tokens", None)
    words = {"vllm": "--model", "sglang": "--model-path"}[engine], figure.model
    spelled = [_spelled(engine, name, value) for name, value in settings.items()]
    argv = [*words, *str(setup["flags"]).split(), *" ".join(spelled).split()]
    simulate = Simulate(
        boot=1,
        cold=cold,
        version=setup["version"],
        startup_s=None,
        kv_tokens=(kv_tokens,) if kv_tokens else (),
    )
    return boot(engine, argv, simulate, profile)[1]


def _spelled(engine: str, name: str, value: object) -> str:
    flags = _FLAGS[engine]
    if isinstance(value, bool):
        return flags.get(name if value else f"no {name}", "")
    return flags[name].format(value)


def quantile(values: list[float], share: float) -> float:
    """Return a quantile, between neighbours in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _run(twin: Twin, asks: list[Ask], concurrency: int) -> tuple[Timeline, ...]:
    return closed_loop(
        twin.engine,
        asks,
        concurrency=concurrency,
        request_s=twin.overheads.request_s,
        turn_s=TURN_S,
        apart_s=APART_S,
    )


def _closed(twin: Twin, load: Mapping[str, Any], concurrency: int) -> Measures:
    ask = Ask(prompt=load["input_tokens"], output_tokens=load["output_tokens"])
    lines = _run(twin, [ask] * max(8, concurrency * load["per_stream"]), concurrency)
    itl_ms = [gap * 1e3 for line in lines for gap in line.itl_s]
    return {
        "output_tokens_per_s": sum(len(line.token_s) for line in lines) / _span_s(lines),
        "ttft_p50_ms": quantile([line.ttft_s * 1e3 for line in lines], 0.5),
        "itl_p50_ms": quantile(itl_ms, 0.5),
        "itl_p99_ms": quantile(itl_ms, 0.99),
    }


def _span_s(lines: tuple[Timeline, ...]) -> float:
    return max(line.last_s for line in lines) - min(line.sent_s for line in lines)


def _shared_prefix(twin: Twin, load: Mapping[str, Any], concurrency: int) -> Measures:
    rng = random.Random(1)  # noqa: S311 - prompts, not secrets
    prefix = array("I", rng.randbytes(4 * load["prefix_tokens"]))
    prompts = [prefix + array("I", rng.randbytes(4 * load["suffix_tokens"])) for _ in range(8)]
    output = load["output_tokens"]
    lines = _run(twin, [Ask(prompt=p, output_tokens=output) for p in prompts], concurrency)
    later = [line.ttft_s * 1e3 for line in lines[1:]]
    return {
        "ttft_first_ms": lines[0].ttft_s * 1e3,
        "ttft_later_ms": statistics.median(later),
    }


def _interference(twin: Twin, load: Mapping[str, Any], concurrency: int) -> Measures:
    victim = Ask(prompt=load["victim_input_tokens"], output_tokens=load["victim_output_tokens"])
    injected = [
        Ask(
            prompt=load["injected_input_tokens"],
            output_tokens=load["injected_output_tokens"],
            due_s=2.0 + 2.0037 * place,
        )
        for place in range(load["injected"])
    ]
    lines = open_loop(twin.engine, [victim, *injected], request_s=twin.overheads.request_s)
    return {
        "victim_itl_max_ms": max(lines[0].itl_s) * 1e3,
        "injected_ttft_ms": statistics.median(line.ttft_s * 1e3 for line in lines[1:]),
    }


def _structured(twin: Twin, load: Mapping[str, Any], concurrency: int) -> Measures:
    speeds = []
    for constrained in (True, False):
        ask = Ask(
            prompt=load["input_tokens"],
            output_tokens=load["output_tokens"],
            constrained=constrained,
        )
        started_s = twin.engine.now_s
        lines = _run(twin, [ask] * (8 * concurrency), concurrency)
        speeds.append(len(lines) / (max(line.last_s for line in lines) - started_s))
    return {"constrained_over_free_ratio": speeds[0] / speeds[1]}


def _boot(twin: Twin, load: Mapping[str, Any], concurrency: int) -> Measures:
    return {
        "kv_tokens": twin.kv_tokens,
        "ready_first_s": twin.overheads.ready_s + twin.overheads.cold_ready_s,
        "ready_again_s": startup_s(twin),
    }


_KINDS: Final[Mapping[str, Callable[[Twin, Mapping[str, Any], int], Measures]]] = {
    "closed": _closed,
    "shared_prefix": _shared_prefix,
    "interference": _interference,
    "structured": _structured,
    "boot": _boot,
}
