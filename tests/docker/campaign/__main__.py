"""Runs the whole fault campaign against the Docker daemon of this machine.

    python -m tests.docker.campaign [--kills 200] [--seed 1] [--stride 1] [--only WORD]

Prints one line for each fault: what is expected, what was seen. Ends with 1 when they differ.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.docker.campaign import kills, own_daemon
from tests.docker.campaign.faults import FAULTS, Images, Outcome, outcome_of

HERE = Path(__file__).parents[1]
RESTARTED = {
    "daemon restarted under load": (
        False,
        Outcome(code=1, boots=("failed load daemon_lost", "done"), says="2 of 2 boots stored"),
    ),
    "the same, and containers live on": (
        True,
        Outcome(code=0, boots=("done", "done"), says="2 of 2 boots stored"),
    ),
}
BASE, IMAGE = "runner-test-base:bookworm", "runner-test-campaign:latest"


def main() -> int:
    """Run the faults that are asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.docker.campaign")
    parser.add_argument("--kills", type=int, default=60, help="kills at random moments")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000)
    parser.add_argument("--stride", type=int, default=1, help="every n-th step of the store")
    parser.add_argument("--only", default="", help="faults whose names hold this word")
    parser.add_argument("--image", default="", help="an image that holds the simulated engine")
    asked = parser.parse_args()
    images = Images(base=BASE, simulated=asked.image or built())
    folder = Path(tempfile.mkdtemp(prefix="survives-"))
    print(f"seed {asked.seed}, folder {folder}", flush=True)
    print(f"{'fault':<40}  {'expected':<60}  seen", flush=True)
    differ = 0
    for name, expected, seen, same in lines(asked, images, folder):
        print(f"{name:<40}  {expected:<60}  {seen}{'' if same else '   <-- DIFFERS'}", flush=True)
        differ += not same
    print(f"{differ} differ" if differ else "all as expected")
    if not differ:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if differ else 0


def built() -> str:
    """Build the image of the simulated engine from this checkout; return its name."""
    subprocess.run([HERE / "base-image", BASE], check=True, stdout=subprocess.DEVNULL)
    build = ["docker", "build", "-q", "-t", IMAGE, "--build-arg", f"BASE={BASE}", "."]
    subprocess.run(build, check=True, cwd=HERE.parents[1], stdout=subprocess.DEVNULL)
    return IMAGE


def lines(
    asked: argparse.Namespace, images: Images, folder: Path
) -> Iterator[tuple[str, str, str, bool]]:
    """Yield a line for each fault: its name, what is expected and seen, and whether that is so."""
    for number, fault in enumerate(FAULTS):
        if asked.only in fault.name:
            seen = outcome_of(fault, folder / str(number), images)
            yield fault.name, str(fault.expected), str(seen), seen == fault.expected
    yield from restarts(asked, images, folder)
    clean = "0 lost, 0 duplicate rows, 0 leftovers"
    if asked.only in "kill -9 at random moments" and asked.kills:
        done = kills.at_random(
            folder / "random", images.simulated, kills=asked.kills, seed=asked.seed
        )
        yield f"kill -9 at random moments, seed {asked.seed}", clean, str(done), not done.wrong
    if asked.only in "kill -9 at steps of the store" and asked.stride:
        done = kills.at_every_step(folder / "steps", images.simulated, stride=asked.stride)
        yield "kill -9 at steps of the store", clean, str(done), not done.wrong


def restarts(
    asked: argparse.Namespace, images: Images, folder: Path
) -> Iterator[tuple[str, str, str, bool]]:
    """Yield a line for each restart of a Docker daemon, one of the campaign's own."""
    wanted = {name: what for name, what in RESTARTED.items() if asked.only in name}
    if not wanted:
        return
    if os.geteuid() or not all(map(shutil.which, ("dockerd", "containerd"))):
        print(f"{', '.join(wanted)}: left out, it needs root, dockerd and containerd")
        return
    with own_daemon.own_daemon(images.base) as (daemon, image):
        for name, (lives, expected) in wanted.items():
            seen = own_daemon.restarted(daemon, image, folder / f"lives-{lives}", lives=lives)
            yield name, str(expected), str(seen), seen == expected


if __name__ == "__main__":
    sys.exit(main())
