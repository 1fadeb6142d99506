"""The simulated promises, at a size that fits a test: coverage, alarm rates, power."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


def bench() -> Any:
    path = Path(__file__).parent / "bench" / "statistics.py"
    spec = importlib.util.spec_from_file_location("bench_statistics", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


BENCH = bench()


@pytest.mark.parametrize("proof", BENCH.PROOFS, ids=lambda proof: proof.__name__)
def test_what_is_promised_holds_in_simulation(proof: Any) -> None:
    found = list(BENCH.rows(proof, scale=0.04, seed=2))
    # 3.3 standard errors: by chance alone one row in 2,000 would fail, and the seed is fixed
    assert [str(row) for row in found if not row.met(sds=3.3)] == []


def test_a_broken_promise_would_be_seen() -> None:
    case = BENCH.Case("coverage", "a coin", lambda rng: rng.random() < 0.5, 0.94, 0.96)
    row = next(BENCH.rows(lambda: iter([case]), scale=0.1))
    assert not row.met(sds=3.3)
    assert "<- outside" in str(row)
