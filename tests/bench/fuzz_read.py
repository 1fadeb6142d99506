"""Feed mutated experiment files to the reader and the planner, guided by coverage.

    pip install atheris
    python tests/bench/fuzz_read.py -max_total_time=600

It begins with the files of `experiments/`. A traceback ends it and leaves the text that caused it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-untyped]

with atheris.instrument_imports(include=["runner", "engines", "tomllib"]):
    from runner.errors import ExperimentError
    from runner.experiment.read import read
    from runner.plan import expand
    from runner.plan.text import planned

EXPERIMENTS = Path(__file__).parent.parent.parent / "experiments"
MOST_BOOTS = 50


def feed(data: bytes) -> None:
    """Plan a text, or refuse it."""
    file = FOLDER / "fuzzed.toml"
    file.write_bytes(data)
    try:
        experiment = read(file)
    except ExperimentError:
        return
    boots = min(experiment.boots, MOST_BOOTS)
    planned(expand(experiment.model_copy(update={"boots": boots})), {})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder)
        corpus = FOLDER / "corpus"
        corpus.mkdir()
        for seed in EXPERIMENTS.glob("*.toml"):
            (corpus / seed.name).write_bytes(seed.read_bytes())
        atheris.Setup([*sys.argv, str(corpus)], feed)
        atheris.Fuzz()
