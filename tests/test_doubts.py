"""Which loads are set aside for what their own row shows."""

from __future__ import annotations

from typing import Any

import pytest

from runner import doubts

LOAD: dict[str, Any] = {
    "load": "shared_prefix@c8",
    "input_tokens": 10_000,
    "expected_hit_tokens": 900,
}


@pytest.mark.parametrize(("hits", "names"), [(1_000, []), (1_001, ["prefix_inflated"])])
def test_hits_over_the_construction_by_over_a_hundredth_set_a_load_aside(
    hits: int, names: list[str]
) -> None:
    found = doubts.of_load({**LOAD, "cached_tokens": hits})
    assert [one.name for one in found] == names
    assert doubts.verdict(found) == ("void" if names else "ok")


@pytest.mark.parametrize("unknown", ["cached_tokens", "expected_hit_tokens"])
def test_what_nobody_knows_inflates_nothing(unknown: str) -> None:
    assert doubts.of_load({**LOAD, "cached_tokens": 9_000, unknown: None}) == []


def test_a_cache_that_was_not_emptied_is_a_doubt_and_one_that_nobody_knows_of_is_none() -> None:
    flushes = {answer: doubts.of_load({**LOAD, "flushed": answer}) for answer in (False, None)}
    assert [one.name for one in flushes[False]] == ["not_flushed"]
    assert flushes[None] == []
