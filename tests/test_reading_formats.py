"""One line of each format and release, in every wrapping that logs come in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines.corpus_names import corpus_facts
from engines.reading import Reader

LINES = json.loads((Path(__file__).parent / "logs" / "lines.json").read_text())


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_lines_of_both_engines_are_at_hand(engine: str) -> None:
    assert len(LINES[engine]) > 20


@pytest.mark.parametrize(
    ("engine", "line"),
    [(engine, line) for engine in ("vllm", "sglang") for line in LINES[engine]],
    ids=lambda each: each["text"][:60] if isinstance(each, dict) else each,
)
def test_a_line_states_its_facts_and_no_others(engine: str, line: dict[str, Any]) -> None:
    reader = Reader(engine)
    reader.feed(line["text"].encode() + b"\n")
    found = corpus_facts(engine, reader.close().facts)
    assert {name: found.get(name) for name in line["facts"]} == line["facts"]
