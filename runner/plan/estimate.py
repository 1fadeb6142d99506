"""How long a plan will take, roughly. Pure, from stated defaults; real boots replace them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

from runner.boots.asks import Draw, own_s, prompts_of
from runner.boots.search import Next, Probe, Range, step
from runner.experiment.levels import Load
from runner.experiment.paces import pace_of
from runner.plan import Plan
from runner.plan.cells import Cell
from runner.workloads import Vocabulary
from runner.workloads.lengths import Distribution, longest

Speed = Literal["gpu", "cpu", "simulated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a server is taken to be, whatever its model: right within a factor of a few.

    Attributes:
        first_s: seconds to the first token of a lone request.
        token_s: seconds for each further token of a lone request.
        output_per_s: output tokens per second of the whole server at most.
        input_per_s: prefilled tokens per second of the whole server at most.
    """

    first_s: float
    token_s: float
    output_per_s: float
    input_per_s: float


PACES: Final[dict[Speed, Pace]] = {
    "gpu": Pace(first_s=0.03, token_s=0.006, output_per_s=5000, input_per_s=40_000),
    "cpu": Pace(first_s=0.1, token_s=0.02, output_per_s=300, input_per_s=3000),
    "simulated": Pace(first_s=0.03, token_s=0.006, output_per_s=5000, input_per_s=40_000),
}
STARTUP_S: Final[dict[tuple[str, Speed], float]] = {
    ("vllm", "gpu"): 90,
    ("sglang", "gpu"): 60,
    ("vllm", "cpu"): 65,
    ("sglang", "cpu"): 45,
}
OTHER_STARTUP_S: Final = 60.0
SIMULATED_STARTUP_S: Final = 2.0
STOP_S: Final = 5.0
_TYPICAL_INPUT, _TYPICAL_OUTPUT = 512, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds of one plan, with nothing stored yet.

    Attributes:
        startup_s: all start-ups and stops of measured boots.
        load_s: all loads with their warm-ups.
        priming_s: discarded boots that fill the compile caches, when those are empty.
        priming_boots: how many of these there are.
    """

    startup_s: float
    load_s: float
    priming_s: float
    priming_boots: int

    @property
    def total_s(self) -> float:
        """Return the whole in seconds."""
        return self.startup_s + self.load_s + self.priming_s


def estimate(plan: Plan) -> Estimate:
    """Return how long a plan will take if nothing is stored and nothing fails, all its stages."""
    if plan.second is not None:
        one, other = estimate(replace(plan, second=None)), estimate(plan.second)
        names = [field.name for field in fields(Estimate)]
        return Estimate(**{name: getattr(one, name) + getattr(other, name) for name in names})
    alone = {cell.cell_id: startup_s(cell) for cell in plan.cells}
    loads = {speed: sum(load_s(load, PACES[speed]) for load in plan.loads) for speed in PACES}
    primed = [cell for cell in plan.cells if is_primed(cell, plan)]
    return Estimate(
        startup_s=sum(alone[boot.cell.cell_id] for boot in plan.boots),
        load_s=sum(loads[speed_of(boot.cell)] for boot in plan.boots),
        priming_s=sum(alone[cell.cell_id] for cell in primed),
        priming_boots=len(primed),
    )


def speed_of(cell: Cell) -> Speed:
    """Return the class of server that a cell starts."""
    if cell.simulated:
        return "simulated"
    return "gpu" if cell.gpus else "cpu"


def startup_s(cell: Cell) -> float:
    """Return the seconds that a cell takes to start and to stop."""
    if cell.launcher == "attach":
        return 0.0
    if cell.simulated:
        return SIMULATED_STARTUP_S
    return STARTUP_S.get((cell.engine.name, speed_of(cell)), OTHER_STARTUP_S) + STOP_S


def is_primed(cell: Cell, plan: Plan) -> bool:
    """Tell whether a discarded boot fills the cell's compile cache first, when that is empty."""
    return cell.keeps_compiled(plan.experiment.cache)


def load_s(load: Load, pace: Pace) -> float:
    """Return the seconds of a load with its warm-up, over all its repeats."""
    if load.range is not None:
        return load.repeats * sum(load_s(probe, pace) for probe in _probes(load, load.range))
    given, wanted = _lengths(load)
    warmup_s = _requests_s(load, load.warmup_requests, given, wanted, pace)
    window_s = load.duration_s or _requests_s(load, load.requests or 0, given, wanted, pace)
    window_s += _last_s(load)
    repeats = 1 if load.probe is not None else load.repeats
    return repeats * (warmup_s + window_s)


def _probes(load: Load, within: Range) -> Iterator[Load]:
    """Yield probes of a search that ends in the middle of its range: a climb, then bisection."""
    middle = math.sqrt(within.low * within.high)
    tried: list[Probe] = []
    while isinstance(found := step(tried, within), Next):
        yield load.at(found.level, len(tried))
        tried.append(Probe(level=found.level, met=found.level <= middle))


def _requests_s(load: Load, count: int, given: float, wanted: float, pace: Pace) -> float:
    """Return the seconds of `count` requests: streams, arrivals or the server's most decide."""
    alone_s = pace.first_s + wanted * pace.token_s
    busy_s = count * (given / pace.input_per_s + wanted / pace.output_per_s)
    return max(_spread_s(load, count, alone_s), busy_s)


def _spread_s(load: Load, count: int, alone_s: float) -> float:
    """Return the seconds over which so many requests are sent and answered by an idle server."""
    if load.in_flight:
        return count / load.in_flight * alone_s
    if load.level_kind == "rate_per_s":
        return pace_of(load).second(count) + alone_s
    return alone_s


def _last_s(load: Load) -> float:
    """Return the last of the workload's own times; 0 where the level or the clock decides."""
    if load.level_kind not in ("speed", "burst") or load.duration_s is not None:
        return 0.0
    draw = Draw(seed=0, boot=0, load=load.load, repeat=0)
    own = prompts_of(load, draw, Vocabulary(), "window")
    return max((own_s(prompt, load) for prompt in own), default=0.0)


def _lengths(load: Load) -> tuple[float, float]:
    """Return prompt and output lengths in tokens, by the names of the workload's own keys.

    A distribution counts with its longest; a workload that names no length with a typical one.
    """
    given = wanted = 0.0
    for key in type(load.spec).model_fields:
        value = getattr(load.spec, key)
        if key.endswith("_tokens") and isinstance(value, (int, Distribution)):
            is_output = "output" in key or "answer" in key
            wanted += longest(value) if is_output else 0
            given += 0 if is_output else longest(value)
    return given or _TYPICAL_INPUT, wanted or _TYPICAL_OUTPUT
