"""Judge the effects that rehearsals on real engines must show, from what they stored.

    python -m tests.real.effects RESULTS [--run [NAME ...]]

One line for each effect on each engine: the figures seen, what they must keep, and whether they
do. Only rehearsals that are in RESULTS are judged, the latest run of each. With --run they are
first rehearsed into RESULTS: those named, or all. Ends with 1 when an effect is missed, with 4 when
none is but one was not measured.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.stored.frames import Results, latest_runs, results
from tests.real.effects import ENGINES, Effect, figures, judged

ROOT = Path(__file__).parents[3]
Judge = Callable[[Results], Iterator[Effect]]


def prefix_cache(found: Results) -> Iterator[Effect]:
    """Judge what the prefix cache saves, and its hits."""
    yield from judged.prefix(figures.prefix(found))
    yield from judged.hits(figures.prefix_hits(found))


def kv_matched(found: Results) -> Iterator[Effect]:
    """Judge the KV tokens of the second stage."""
    yield from judged.kv_matched(*figures.second_stage(found))


JUDGES: dict[str, Judge] = {
    "throughput_512": lambda found: iter(()),
    "throughput_2048": lambda found: iter(()),
    "prefix_cache": prefix_cache,
    "structured": lambda found: judged.structured(figures.structured(found)),
    "interference": lambda found: judged.stalls(figures.stalls(found), "interference"),
    "chunking": lambda found: judged.stalls(figures.stalls(found), "chunking"),
    "capacity": lambda found: judged.capacity(figures.capacity(found)),
    "kv_matched": kv_matched,
    "hicache": lambda found: judged.declared_end(figures.boots(found)),
    "open_loop": lambda found: judged.open_loop(figures.loops(found)),
}
"""What is judged of each experiment, beside that every boot went as expected."""


def effects(name: str, found: Results) -> Iterator[Effect]:
    """Yield the effects of one rehearsal."""
    engines = ("sglang",) if name == "hicache" else ENGINES
    yield from judged.boots(figures.boots(found), name, engines)
    yield from JUDGES[name](found)


def main() -> int:
    """Rehearse where that is asked, then judge; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.real.effects")
    parser.add_argument("results", type=Path, help="folder of all results")
    parser.add_argument("--run", nargs="*", choices=JUDGES, help="rehearse these first")
    asked = parser.parse_args()
    for name in [] if asked.run is None else asked.run or JUDGES:
        rehearse(name, asked.results)
    there = [name for name in JUDGES if (asked.results / name / "runs").is_dir()]
    holds = [effect.holds for name in there for effect in told(name, asked.results)]
    if absent := [name for name in JUDGES if name not in there]:
        print(f"not in {asked.results}: {', '.join(absent)}")
    missed, unknown = holds.count(False), holds.count(None)
    print(f"{holds.count(True)} ok, {missed} missed, {unknown} not measured")
    return 1 if missed else 4 if unknown or not holds else 0


def rehearse(name: str, folder: Path) -> None:
    """Rehearse one experiment; what it ends with shows in its rows."""
    file = ROOT / "experiments" / f"{name}.toml"
    words = [sys.executable, "-c", "from runner.cli import main; main()", "exec", str(file)]
    print(f"rehearses {name}", flush=True)
    done = subprocess.run(
        [*words, "--rehearse", "--results", str(folder)],
        stdout=subprocess.DEVNULL,
        check=False,
    )
    print(f"{name}: exec ended with {done.returncode}", flush=True)


def told(name: str, folder: Path) -> Iterator[Effect]:
    """Yield the effects of the latest rehearsal of an experiment, each told as it comes."""
    path = folder / name
    found = results(path, runs=latest_runs(path))
    if not found.cells.rehearsal.fillna(value=False).astype(bool).all():
        print(f"{name}: its latest run is no rehearsal; it is not judged")
        return
    if found.cells.simulated.fillna(value=False).astype(bool).any():
        print(f"{name}: SIMULATED: what follows shows this command, not an engine")
    for effect in effects(name, found):
        print(effect.line, flush=True)
        yield effect


if __name__ == "__main__":
    sys.exit(main())
