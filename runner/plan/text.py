"""A plan as text: every cell with its command, every boot in order, loads, warnings, time. Pure."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.boots.search import most_probes
from runner.experiment.levels import Load
from runner.launchers import Launch
from runner.launchers.docker_line import equivalent
from runner.plan import Plan
from runner.plan.cells import Cell
from runner.plan.dominated import predecessors
from runner.plan.estimate import estimate, is_primed
from runner.plan.launch import Circumstances, launch_of, models_folder
from runner.plan.power import power_lines
from runner.plan.stages import NOMINAL_TOKENS, SMALLEST
from runner.secrets import Redactor
from runner.stats.design import Spread


def planned(
    plan: Plan,
    environment: Mapping[str, str] | None = None,
    *,
    past: Spread | None = None,
    next_plans: Sequence[str] = (),
) -> str:
    """Return the plan as text; values of secrets are replaced by their names.

    Args:
        plan: what will be done.
        environment: this process's variables (HF_HOME, secrets); `os.environ` by default.
        past: spread of the ratio of two boots in past results.
        next_plans: the cheapest plans where past results tell the variances.
    """
    given = os.environ if environment is None else environment
    found = [*power_lines(plan, past), *(f"  cheapest: {one}" for one in next_plans)]
    text = "\n".join([*_lines(plan, given), *found, ""])
    names = (name for cell in plan.cells for name in cell.keys.secrets)
    return Redactor.of(names, given).text(text)


def _lines(plan: Plan, environment: Mapping[str, str]) -> Iterator[str]:
    yield plan.experiment.question.strip()
    yield ""
    yield _summary(plan)
    for number, cell in enumerate(plan.cells, start=1):
        yield ""
        yield f"Cell {number} of {len(plan.cells)}: {cell.label}"
        yield from _cell(cell, plan, environment)
    yield from _legend(plan)
    yield from _inapplicable(plan)
    yield from _dominated(plan)
    yield from _loads(plan)
    yield from _boots(plan)
    yield from _second(plan)
    yield from _listed("Warnings", plan.warnings)
    yield from _time(plan)


def _summary(plan: Plan) -> str:
    rehearsed = ", rehearsal" if plan.experiment.rehearsal else ""
    boots = _count(len(plan.boots), "boot") + (" in each of 2 stages" if plan.second else "")
    return (
        f"{plan.experiment.path}{rehearsed}: {_count(len(plan.cells), 'cell')}, "
        f"{boots}, {_count(len(plan.loads), 'load')} in each boot, "
        f"about {spelled_time(estimate(plan).total_s)}"
    )


def _cell(cell: Cell, plan: Plan, environment: Mapping[str, str]) -> Iterator[str]:
    launch = launch_of(cell, _circumstances(cell, plan, environment))
    yield f"  cell_id  {cell.cell_id}"
    yield f"  starts   {_starts(cell)}"
    yield f"  asked    {_asked(cell)}"
    if cell.keys.expect:
        cause = f", cause {cell.keys.expect.cause}" if cell.keys.expect.cause else ""
        yield f"  expects  {cell.keys.expect.outcome}{cause}"
    if cell.launcher == "docker":
        own = () if cell.engine.image_program or cell.simulated else ("[the image's entrypoint]",)
        yield f"  command  {' '.join([*own, shlex.join(launch.argv)])}"
        yield f"  docker   {equivalent(launch)}"
    elif cell.launcher == "process":
        yield f"  command  {local_command(launch)}"


def _circumstances(cell: Cell, plan: Plan, environment: Mapping[str, str]) -> Circumstances:
    """Return what a start would know, as far as it is known without looking at the machine."""
    cache = plan.experiment.cache
    compiled = Path(cache.folder).expanduser() / f"{cell.cell_id}-BUILD"
    return Circumstances(
        port=cell.engine.port,
        models=models_folder(cache, environment),
        writable=cache.writable,
        compile_folder=compiled if is_primed(cell, plan) else None,
        name=f"runner-{cell.cell_id}",
    )


def local_command(launch: Launch) -> str:
    """Return a local server's command for a shell; secrets are named, not shown."""
    env = [shlex.quote(f"{name}={value}") for name, value in sorted(launch.env.items())]
    secrets = [f'{name}="${name}"' for name in launch.secrets]
    before = ["env", *env, *secrets] if env or secrets else []
    pinned = ["taskset", "-c", launch.cpus] if launch.cpus else []
    return " ".join([*before, shlex.join([*pinned, *launch.argv])])


def _starts(cell: Cell) -> str:
    simulated = "simulated " if cell.simulated else ""
    kind = f"{simulated}{cell.engine.name}"
    if cell.launcher == "attach":
        return f"nothing: {kind} already serves at {cell.section.url}"
    gpus = f"{_count(cell.gpus, 'GPU')}" if cell.gpus else "no GPU"
    cores = f", on cores {cell.keys.cpus}" if cell.keys.cpus else ""
    where = f"a container of {cell.keys.image}" if cell.launcher == "docker" else "a local process"
    return f"{kind} as {where}, {gpus}{cores}"


def _asked(cell: Cell) -> str:
    words = [f"model = {cell.keys.model}"]
    words += [f"{name} = {_value(value)}" for name, value in cell.settings.items()]
    words += [f"compile = {cell.keys.compile}"] if cell.keys.compile else []
    words += [f"flags.{name} = {_value(value)}" for name, value in cell.keys.flags.items()]
    words += [f"env.{name} = {value}" for name, value in cell.keys.env.items()]
    words += [f"secret {name}" for name in cell.keys.secrets]
    return ", ".join(words)


def _value(value: Any) -> str:
    """Return a value as the file writes it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def _legend(plan: Plan) -> Iterator[str]:
    """Yield what a start still decides, and a plan cannot know."""
    kinds = {cell.launcher for cell in plan.cells}
    if kinds & {"docker", "process"}:
        yield ""
    if "docker" in kinds:
        yield "At its start a container is named after its run, and gets labels of its owner;"
        yield "its image is given by digest and its model by commit. BUILD stands for what image,"
        yield "model and GPU became."
    if "process" in kinds:
        yield "At its start a local command gets a port that is free, and its own boot number."


def _inapplicable(plan: Plan) -> Iterator[str]:
    if not plan.inapplicable:
        return
    yield ""
    yield "Inapplicable, kept as rows but never started"
    for entry in plan.inapplicable:
        yield f"  {entry.cell.label}  (cell_id {entry.cell.cell_id})"
        yield f"    asked  {_asked(entry.cell)}"
        for reason in entry.reasons:
            yield f"    - {reason}"


def _dominated(plan: Plan) -> Iterator[str]:
    """Yield the cells that `skip_dominated` may skip, each with those that decide it."""
    if not plan.experiment.skip_dominated:
        return
    yield ""
    yield "Skipped, and kept as rows, where a cell that needs less dies of memory on the same GPU"
    found = list(predecessors(plan.cells))
    for cell, smaller in found:
        named = " or ".join(other.label for other in smaller[:3])
        more = f" or one of {len(smaller) - 3} more" if len(smaller) > 3 else ""
        yield f"  {cell.label}: skipped once {named}{more} died of memory"
    if not found:
        yield "  no cell: none needs strictly more than another"


def _loads(plan: Plan) -> Iterator[str]:
    yield ""
    yield "Loads of each boot, in this order"
    width = max([len(load.load) for load in plan.loads], default=0)
    for load in plan.loads:
        asked = _searched(load) if load.range else _level(load)
        repeats = f", {load.repeats} times" if load.repeats > 1 else ""
        flush = "" if load.keys.flush else ", prefix cache not flushed before"
        spec = ", ".join(f"{key} = {_value(value)}" for key, value in _spec(load.spec).items())
        yield f"  {load.load:<{width}}  {asked}{repeats}{flush}; {spec}"


def _level(load: Load) -> str:
    level = {
        "concurrency": f"{load.level:g} in flight",
        "rate_per_s": _rate(load),
        "speed": f"its own times, {load.level:g} times as fast",
        "burst": f"{load.level:g} at one moment",
    }[load.level_kind]
    if load.keys.max_in_flight:
        level += f", at most {load.keys.max_in_flight} in flight"
    work = "all requests"
    if load.requests or load.duration_s:
        work = f"{load.requests} requests" if load.requests else f"{load.duration_s:g} s"
    return f"{level}, {work} after {load.warmup_requests} of warm-up"


def _rate(load: Load) -> str:
    """Return an arrival rate, its law and how it comes about."""
    if load.level == math.inf:
        return "all at once"
    ramp, law = load.keys.ramp, load.keys.arrivals
    came = f", {ramp.shape} from {ramp.from_per_s:g} over {ramp.over_s:g} s" if ramp else ""
    return f"{load.level:g} requests per second ({law}{came})"


def _searched(load: Load) -> str:
    """Return what a search looks for, where, and how long it may take."""
    search, within = load.keys.search, load.range
    if search is None or within is None:
        return ""
    by_rate = search.rate_per_s is not None
    unit = f"requests per second ({load.keys.arrivals})" if by_rate else "in flight"
    before = f"{search.settle_s:g} s of arrivals" if by_rate else "a warm-up"
    each = (
        f"{load.requests} requests"
        if load.at(within.high, 0).requests == load.requests
        else (f"{load.requests} requests or more")
    )
    return (
        f"search of the highest level from {within.low:g} to {within.high:g} {unit} with"
        f" {search.slo.told}, to within {100 * within.within_ratio:g} %: at most"
        f" {most_probes(within)} probes of {each} after {before}"
    )


def _spec(spec: Any) -> dict[str, Any]:
    keys: dict[str, Any] = spec.model_dump(exclude_none=True)
    return keys


def _boots(plan: Plan) -> Iterator[str]:
    yield ""
    yield f"Boots in the order they will run, each block shuffled by seed {plan.experiment.seed}"
    yield "  order  block   boot  cell"
    for boot in plan.boots:
        yield f"  {boot.order:>5}  {boot.block:>5}  {boot.boot:>5}  {boot.cell.label}"


def _second(plan: Plan) -> Iterator[str]:
    """Yield what the second stage will ask, as far as it is known before the first is stored."""
    if plan.second is None:
        return
    first, later = plan.experiment.stages
    yield ""
    yield (
        f"Stage 2, {later.name}: the same boots once more, planned when all boots of stage 1,"
        f" {first.name}, are stored"
    )
    for cell in plan.second.cells:
        asked = _asked(cell).replace(f"kv_tokens = {NOMINAL_TOKENS}", f"kv_tokens = {SMALLEST}")
        yield f"  {cell.label}: {asked}"
    for entry in plan.second.inapplicable:
        yield f"  {entry.cell.label} is inapplicable: {' '.join(entry.reasons)}"


def _listed(title: str, sentences: tuple[str, ...]) -> Iterator[str]:
    if sentences:
        yield ""
        yield title
        yield from (f"  - {sentence}" for sentence in sentences)


def _time(plan: Plan) -> Iterator[str]:
    rough = estimate(plan)
    yield ""
    whole = spelled_time(rough.total_s)
    yield f"Time: about {whole}, roughly; boots already stored are not started again"
    yield f"  {spelled_time(rough.startup_s):>10}  starting and stopping"
    yield f"  {spelled_time(rough.load_s):>10}  loads and their warm-ups"
    if rough.priming_boots:
        count = _count(rough.priming_boots, "discarded boot")
        yield f"  {spelled_time(rough.priming_s):>10}  {count} to fill empty compile caches"


def spelled_time(seconds: float) -> str:
    """Return a time for people: `40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
