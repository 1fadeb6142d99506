"""The points of a matrix: product, zips, exclusions and inclusions, in a stable order."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runner.experiment.matrix import Point, matches, points

VALUES = st.one_of(st.integers(0, 5), st.booleans(), st.sampled_from(["as_stored", "fp8"]))
LISTS = st.lists(VALUES, min_size=1, max_size=4, unique_by=json.dumps)
AXES = st.dictionaries(st.sampled_from("abcd"), LISTS, min_size=1, max_size=3)


@st.composite
def zips(draw: st.DrawFn) -> list[dict[str, list[Any]]]:
    """Draw at most two groups of axes that the product does not have, each of one length."""
    groups = []
    for names in draw(st.sampled_from([[], ["xy"], ["xy", "z"]])):
        length = draw(st.integers(1, 3))
        rows = st.lists(VALUES, min_size=length, max_size=length)
        groups.append({name: draw(rows) for name in names})
    return groups


RULES = st.lists(
    st.dictionaries(st.sampled_from("abcdxyz"), VALUES | LISTS, min_size=1, max_size=2),
    max_size=3,
)
POINTS = st.lists(st.dictionaries(st.sampled_from("abcdxyz"), VALUES, max_size=3), max_size=3)


def spelled(found: list[Point]) -> list[str]:
    """Return points as text, which tells `1` from `true` where Python's `==` does not."""
    return [json.dumps(point, sort_keys=True) for point in found]


@given(AXES)
def test_a_product_has_every_combination_once(axes: dict[str, list[Any]]) -> None:
    found = points(axes)
    assert len(found) == math.prod(len(values) for values in axes.values())
    assert len(set(spelled(found))) == len(found)
    expected = [dict(zip(axes, row, strict=True)) for row in itertools.product(*axes.values())]
    assert spelled(found) == spelled(expected)


def test_the_first_axis_varies_slowest() -> None:
    assert points({"a": [1, 2], "b": [3, 4]}) == [
        {"a": 1, "b": 3},
        {"a": 1, "b": 4},
        {"a": 2, "b": 3},
        {"a": 2, "b": 4},
    ]


@given(AXES, zips())
def test_zipped_axes_move_together(
    axes: dict[str, list[Any]], groups: list[dict[str, list[Any]]]
) -> None:
    rows = [
        {json.dumps(row) for row in zip(*group.values(), strict=True)} for group in groups if group
    ]
    found = points(axes, groups)
    size = math.prod(map(len, axes.values())) * math.prod(map(len, rows))
    assert len(found) == size
    for point, (group, seen) in itertools.product(found, zip(groups, rows, strict=True)):
        assert json.dumps([point[axis] for axis in group]) in seen


@given(AXES, RULES)
def test_excluding_keeps_the_order_and_drops_exactly_what_matches(
    axes: dict[str, list[Any]], rules: list[dict[str, Any]]
) -> None:
    kept = [point for point in points(axes) if not any(matches(point, rule) for rule in rules)]
    assert spelled(points(axes, exclude=rules)) == spelled(kept)


@given(AXES, RULES, POINTS)
def test_included_points_come_last_and_are_never_excluded(
    axes: dict[str, list[Any]], rules: list[dict[str, Any]], included: list[Point]
) -> None:
    before = spelled(points(axes, exclude=rules))
    after = spelled(points(axes, exclude=rules, include=included))
    assert after[: len(before)] == before
    assert set(after) == set(before) | set(spelled(included))


@given(AXES, zips(), RULES, POINTS)
def test_no_point_comes_twice(
    axes: dict[str, list[Any]],
    groups: list[dict[str, list[Any]]],
    rules: list[dict[str, Any]],
    included: list[Point],
) -> None:
    found = spelled(points(axes, groups, rules, included))
    assert len(set(found)) == len(found)


def test_a_list_in_a_rule_means_any_of_its_values() -> None:
    assert matches({"a": 2, "b": 1}, {"a": [1, 2]})
    assert not matches({"a": 3}, {"a": [1, 2]})


def test_a_rule_about_an_axis_that_a_point_lacks_does_not_match() -> None:
    assert not matches({"a": 1}, {"b": None})


def test_a_rule_needs_all_its_values() -> None:
    assert not matches({"a": 1, "b": 2}, {"a": 1, "b": 3})
