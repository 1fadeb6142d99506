"""Complaints know the line of every key, and describe what a key takes in words."""

from __future__ import annotations

import string
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PositiveFloat, PositiveInt

from runner.experiment.complaints import Complaint, findings_of, suggestion
from runner.experiment.forms import described, form_of
from runner.experiment.places import line_of, places_of, spelled

TEXT = '''\
title = "x"   # a comment with [brackets] and = signs
[a."b.c"]
key = 1
long = """
fake = 1
[fake]
"""
'quoted key' = [
    1,  # one
    { inner = 2, deep = { er = 3 } },
    [4,
     5],
]
dotted.key.here = 1979-05-27 07:32:00
[[list]]
x = 1.5
[[list]]
x = 2
[list.sub]
y = """ "" """
[[list.sub2]]
z = ''
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("title",), 1),
        (("a", "b.c"), 2),
        (("a", "b.c", "key"), 3),
        (("a", "b.c", "long"), 4),
        (("a", "b.c", "quoted key"), 8),
        (("a", "b.c", "quoted key", 0), 9),
        (("a", "b.c", "quoted key", 1, "inner"), 10),
        (("a", "b.c", "quoted key", 1, "deep", "er"), 10),
        (("a", "b.c", "quoted key", 2, 1), 12),
        (("a", "b.c", "dotted", "key", "here"), 14),
        (("list",), 15),
        (("list", 0, "x"), 16),
        (("list", 1), 17),
        (("list", 1, "x"), 18),
        (("list", 1, "sub", "y"), 20),
        (("list", 1, "sub2", 0, "z"), 22),
    ],
)
def test_every_key_and_element_has_its_line(place: tuple[str | int, ...], line: int) -> None:
    assert places_of(TEXT)[place] == line


def test_what_looks_like_a_key_inside_a_string_is_none() -> None:
    found = places_of(TEXT)
    assert not [place for place in found if "fake" in place]
    assert ("list", 0, "sub") not in found


def test_a_place_that_is_not_there_has_the_line_of_what_it_would_stand_in() -> None:
    lines = places_of(TEXT)
    assert line_of(("list", 1, "missing"), lines) == (2, 17)
    assert line_of(("nowhere",), lines) == (0, None)


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=4)
SCALARS = st.one_of(
    st.integers(-9, 9).map(str),
    st.text(string.printable, max_size=8).map(lambda text: f"'''{text.replace(chr(39), '')}'''"),
    st.sampled_from(["true", "1.5", "[]", "{}", "[1, [2, 3]]", '"a # b"', "'[x]'", "{ a = 1 }"]),
)


@given(st.dictionaries(NAMES, SCALARS, min_size=1, max_size=6))
def test_each_key_of_a_flat_file_is_found_at_its_own_line(values: dict[str, str]) -> None:
    lines, text = {}, ""
    for key, value in values.items():
        lines[key] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    found = places_of(text)
    assert {key: found[(key,)] for key in values} == lines


def test_a_place_is_spelled_as_a_reader_writes_it() -> None:
    assert spelled(("loads", 0, "concurrency", 1)) == "loads[0].concurrency[1]"
    assert Complaint(place=(), sentence="why").text("f.toml", {}) == "f.toml: why"


def test_a_suggestion_names_the_nearest_word_or_lists_all() -> None:
    assert suggestion("vlm", ["vllm", "sglang"]) == "Did you mean 'vllm'?"
    assert suggestion("zzz", ["vllm", "sglang"]) == "Known here: sglang, vllm."
    assert suggestion("zzz", []) == ""


class Small(BaseModel, extra="forbid"):
    """A table of two keys."""

    much: PositiveInt
    law: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (PositiveInt, "a whole number of at least 1"),
        (PositiveFloat | None, "a number above 0"),
        (bool, "true or false"),
        (Literal["a", "b"], '"a" or "b"'),
        (PositiveInt | tuple[PositiveInt, ...], "a whole number of at least 1, or a list of them"),
        (int | str, "a whole number, or a string"),
        (Small, "a table { much = ... }"),
        (dict[str, int], "a table"),
        (tuple[str, ...], "a list, each a string"),
        (Any, "a value"),
    ],
)
def test_what_a_key_takes_is_said_in_words(annotation: Any, words: str) -> None:
    assert described(form_of(annotation)) == words


@pytest.mark.parametrize("value", ["text", None, [], [1.5], True])
def test_a_value_of_no_branch_is_one_complaint(value: object) -> None:
    assert len(findings_of(int | Small, value)) == 1


def test_a_union_is_judged_by_the_branch_that_was_meant() -> None:
    assert [found.place for found in findings_of(int | Small, {"much": 0, "low": 1})] == [
        ("much",),
        ("low",),
    ]
    assert findings_of(int | Small, {"much": 2}) == []


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_a_value_is_right_exactly_when_nothing_is_found(value: Any) -> None:
    right = isinstance(value, int) and not isinstance(value, bool) and value > 0
    assert (findings_of(PositiveInt, value) == []) == right


def test_a_bound_beside_a_key_is_part_of_its_words() -> None:
    class Ratio(BaseModel):
        ratio: float = Field(default=0.5, ge=0, le=1)

    (found,) = findings_of(Ratio, {"ratio": 2})
    assert found.sentence == "must be a number of at least 0 and of at most 1; found 2"
