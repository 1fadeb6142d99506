"""`runner nightly`: one block of every experiment, then the next, until the night is over."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import httpx

from runner.errors import ExperimentError, HostError
from runner.experiment.night import Night, read_night
from runner.experiment.places import WORD
from runner.nights.expected import expected, past
from runner.nights.page import Page, page_of
from runner.nights.share import Share
from runner.plan import Plan, PlannedBoot, expand
from runner.progress import Happening, Watch, unseen, watching
from runner.run import NightPart, execute
from runner.stages import frozen_stage, missing_boots
from runner.stored.parts import write_text
from runner.stored.store import Run, Store
from runner.world import World

Clock = Callable[[], datetime]
WEBHOOK: Final = "RUNNER_WEBHOOK"
"""Variable that holds the URL; a URL may be a secret, so no option takes one."""


def nightly(
    night: Night,
    world: World,
    results: Path,
    *,
    name: str,
    deadline: datetime | None = None,
    watch: Watch = unseen,
    now: Clock = lambda: datetime.now().astimezone(),
) -> list[Share]:
    """Run what a night still lacks: each block of every experiment before the next block of any.

    Args:
        night: what is run.
        world: the edges.
        results: folder of all results.
        name: of the night; a run of that name is continued.
        deadline: nothing is started that would not end before; None for no end.
        watch: is told what happens.
        now: the clock.

    Raises:
        KeyboardInterrupt: it was interrupted; what was measured is stored.
    """
    shares = [Share(plan=expand(experiment, nightly=True)) for experiment in night.experiments]
    once = replace(world, floor=functools.cache(world.floor))
    for block in range(max(share.blocks for share in shares)):
        for share in shares:
            missing = _missing(share.plan, results, name, block)
            if share.refused or not missing:
                continue
            takes = expected(missing, share.plan, past(results))
            late = deadline is not None and now() + timedelta(seconds=takes.seconds) > deadline
            if late or share.waits(block):
                share.not_reached[block] = takes
                continue
            _run(share, once, results, NightPart(night=name, blocks={block}), watch)
    for share in shares:
        _stand(share, once, results, name)
    return shares


def _run(share: Share, world: World, results: Path, part: NightPart, watch: Watch) -> None:
    try:
        share.summary = execute(share.plan, world, results, watch=watch, part=part)
        share.started += share.summary.started
    except HostError as error:
        share.refused = str(error)
        said = f"{share.plan.experiment.name} is left out: {error}"
        watch(Happening(event="note", detail=said))


def _stand(share: Share, world: World, results: Path, name: str) -> None:
    """Note how a run stands that was complete before, so that its figures are on the page."""
    stored = Store(results, share.plan.experiment.name).latest(share.plan.content_id, name)
    if share.summary is None and stored is not None and not share.refused:
        _run(share, world, results, NightPart(night=name, blocks=()), unseen)


def _missing(plan: Plan, results: Path, name: str, block: int) -> list[PlannedBoot]:
    run = Store(results, plan.experiment.name).latest(plan.content_id, name)
    second = (frozen_stage(plan, run) if run else None) or plan.second
    boots = [boot for stage in (plan, second) if stage for boot in _lacking(stage, run)]
    return [boot for boot in boots if boot.block == block]


def _lacking(stage: Plan, run: Run | None) -> Iterable[PlannedBoot]:
    return stage.boots if run is None else missing_boots(stage, run, retry_failed=False)


def name_of(moment: datetime) -> str:
    """Return the night that a moment belongs to: from noon to noon, by the day it began."""
    return (moment - timedelta(hours=12)).date().isoformat()


def deadline_of(until: str | None, budget: str | None, moment: datetime) -> datetime | None:
    """Return when a night ends: at the next `07:00`, or after `6h`, `90m`, `2h30m`.

    Raises:
        ExperimentError: it is no such time, or both are given.
    """
    if until and budget:
        raise ExperimentError("--until and --budget: give one of them")
    if until:
        found = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", until)
        if not found:
            raise ExperimentError(f'--until: "{until}" is no time of day; write 07:00')
        ends = moment.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        return ends if ends > moment else ends + timedelta(days=1)
    if budget:
        found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?", budget)
        if not found or not found[0]:
            raise ExperimentError(f'--budget: "{budget}" is no length of time; write 6h or 90m')
        return moment + timedelta(hours=int(found[1] or 0), minutes=int(found[2] or 0))
    return None


def post(url: str, page: Page, path: Path) -> str:
    """Post a night's headline to a webhook; return what went wrong, nothing when nothing did."""
    body = {"text": f"{page.headline} ({path})", "night": page.name, "exit_code": page.exit_code}
    try:
        httpx.post(url, json=body, timeout=10).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"the webhook was not told: {type(error).__name__}"
    return ""


@click.command("nightly")
@click.argument("file", type=click.Path(path_type=Path), default=Path("experiments/night.toml"))
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder of the results.",
)
@click.option("--until", metavar="HH:MM", help="Start nothing that would not end by then.")
@click.option("--budget", metavar="6h", help="The same, from now on.")
@click.option("--night", "name", metavar="NAME", help="Its name; the day it began by default.")
@click.option("--rehearse", is_flag=True, help="Lay each file's [rehearse] table over the rest.")
@click.option("--simulate", is_flag=True, help="Start nothing: simulate every engine.")
@click.option("--gpu", metavar="NAME", help="GPU profile to simulate, or its file's path.")
@click.option("--webhook", is_flag=True, help=f"Post the headline to the URL in ${WEBHOOK}.")
def command(**options: Any) -> None:
    """Run the experiments that FILE lists, block by block, and hold the night against earlier ones.

    \b
    runner nightly experiments/night.toml --until 07:00
    """
    from runner.cli import answering, stop_on_signals

    stop_on_signals()
    answering(_night)(**options)


def _night(
    file: Path,
    results: Path,
    name: str | None,
    *,
    until: str | None,
    budget: str | None,
    rehearse: bool,
    simulate: bool,
    gpu: str | None,
    webhook: bool,
) -> int:
    url = os.environ.get(WEBHOOK) if webhook else None
    if webhook and not url:
        raise ExperimentError(f"--webhook: ${WEBHOOK} is not set; export the URL there")
    if gpu and not simulate:
        raise ExperimentError("--gpu goes with --simulate")
    night = read_night(file, rehearse=rehearse, simulate=simulate, gpu=gpu)
    moment = datetime.now().astimezone()
    deadline = deadline_of(until, budget, moment)
    name = name or name_of(moment)
    if not WORD.fullmatch(name):
        raise ExperimentError(f'--night: "{name}" names files; use letters, digits and dashes')
    with watching(sys.stderr, live=sys.stderr.isatty()) as watch:
        shares = nightly(night, World(), results, name=name, deadline=deadline, watch=watch)
    page = page_of(shares, night.keys, results, name)
    path = results / f"night-{name}.md"
    write_text(path, page.text)
    click.echo(page.head)
    click.echo(f"Page: {path}")
    complaint = post(url, page, path) if url else ""
    if complaint:
        click.echo(complaint, err=True)
    return page.exit_code
