"""Logs cut, mixed, doubled, damaged and endless: no exception, no invented number, linear work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import Fact
from engines.lines import LONGEST, segments
from engines.reading import Reader, Reading

FOLDER = Path(__file__).parent / "logs"
LOGS = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.log"))}
LINES = [line for log in LOGS.values() for line in log.split(b"\n")]
SUMS = {"kv_tokens", "kv_bytes", "swa_bytes", "draft_kv_bytes"}
"""Facts that may be a sum of what is printed."""

logs = st.sampled_from(sorted(LOGS))


def read(data: bytes, engine: str | None = None, step: int = 1 << 16) -> Reading:
    reader = Reader(engine)
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
    return reader.close()


def numbers(reading: Reading) -> set[tuple[str, object]]:
    """Return what is stated as a number, sums and what a rank is called left out."""
    return {
        (fact.name, fact.value)
        for fact in reading.facts
        if fact.name not in SUMS and not isinstance(fact.value, bool | str)
    }


def is_printed(fact: Fact) -> bool:
    """Tell whether a number stands in the line it is said to be read from."""
    if isinstance(fact.value, bool | str) or fact.name in SUMS or len(fact.text) >= 300:
        return True
    if fact.name.endswith("_bytes"):
        sizes = re.findall(r"-?\d+(?:\.\d+)?", fact.text)
        scales = (2**30, 10**9)
        return any(round(float(size) * scale) == fact.value for size in sizes for scale in scales)
    return str(fact.value) in fact.text.replace(",", "") or f"{fact.value:g}" in fact.text


@given(log=logs, cut=st.integers(0, 8000))
def test_a_log_cut_anywhere_states_no_number_that_the_whole_does_not(log: str, cut: int) -> None:
    whole = read(LOGS[log])
    part = read(LOGS[log][:cut], whole.engine)
    assert numbers(part) <= numbers(whole)


@given(log=logs, start=st.integers(0, 8000))
def test_a_log_without_its_beginning_states_no_number_of_its_own(log: str, start: int) -> None:
    data = LOGS[log]
    start = data.find(b"\n", min(start, len(data) - 1)) + 1
    whole = read(data)
    # whose pool or model it is may not be known any more, the numbers are the same
    values = {value for _, value in numbers(whole)}
    assert {value for _, value in numbers(read(data[start:], whole.engine))} <= values


@given(log=logs, times=st.integers(2, 5))
def test_a_log_printed_several_times_states_the_same(log: str, times: int) -> None:
    once, often = read(LOGS[log]), read(LOGS[log] * times)
    assert {(fact.name, fact.value) for fact in often.facts} == {
        (fact.name, fact.value) for fact in once.facts
    }


@given(log=logs, step=st.integers(1, 50))
def test_how_a_log_arrives_in_pieces_does_not_matter(log: str, step: int) -> None:
    assert read(LOGS[log], step=step) == read(LOGS[log])


@given(st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 400)), max_size=40))
def test_lines_mixed_and_torn_state_only_numbers_that_they_print(
    torn: list[tuple[bytes, int]],
) -> None:
    mixed = b"\n".join(line[:length] for line, length in torn)
    assert [fact for fact in read(mixed + b"\n").facts if not is_printed(fact)] == []


@given(one=logs, other=logs)
def test_two_logs_in_turn_state_only_numbers_that_they_print(one: str, other: str) -> None:
    pairs = zip(LOGS[one].split(b"\n"), LOGS[other].split(b"\n"), strict=False)
    mixed = b"\n".join(line for pair in pairs for line in pair)
    assert [fact for fact in read(mixed + b"\n").facts if not is_printed(fact)] == []


@given(st.binary(max_size=4000))
def test_any_bytes_are_read_without_a_number_that_is_not_in_them(data: bytes) -> None:
    reading = read(data)
    assert reading.outcome in ("ready", "failed", "partial")
    assert [fact for fact in reading.facts if not is_printed(fact)] == []


@given(st.lists(st.text(max_size=60), max_size=30))
def test_any_text_is_read(lines: list[str]) -> None:
    reading = read("\n".join(lines).encode("utf-8", "surrogatepass"))
    assert reading.outcome in ("ready", "failed", "partial")


@given(log=logs, at=st.integers(0, 8000), noise=st.binary(max_size=200))
def test_a_log_with_binary_rubbish_in_it_states_no_other_number(
    log: str, at: int, noise: bytes
) -> None:
    data = LOGS[log]
    at = data.find(b"\n", min(at, len(data) - 1)) + 1
    rubbish = bytes(byte | 0x80 for byte in noise)
    part = read(data[:at] + rubbish + b"\n" + data[at:], read(data).engine)
    assert numbers(part) <= numbers(read(data))


@pytest.mark.parametrize("log", sorted(LOGS))
def test_every_number_of_a_log_is_printed_in_its_line(log: str) -> None:
    assert [fact for fact in read(LOGS[log]).facts if not is_printed(fact)] == []


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_work_grows_no_faster_than_the_log(engine: str) -> None:
    lines = [line for line in LINES if line] * 3

    def examined(count: int) -> int:
        reader = Reader(engine)
        reader.feed(
            b"".join(b"%d %b\n" % (number, line) for number, line in enumerate(lines[:count]))
        )
        reader.close()
        return reader.examined

    few, many = len(lines) // 3, len(lines)
    assert examined(many) <= 3.2 * examined(few) + LONGEST


def test_each_character_of_an_endless_line_is_looked_at_once_at_most() -> None:
    reader = Reader()
    for _ in range(200):
        reader.feed(b"GPU KV cache size: 1" * 1000)
    assert reader.close().facts == ()
    assert reader.examined <= 2 * LONGEST


def test_an_endless_line_keeps_no_more_than_its_beginning() -> None:
    reader = Reader("sglang")
    for _ in range(100):
        reader.feed(b"x" * 100_000)
    reader.feed(b"\nmax_total_num_tokens=20480, context_len=4096\n")
    assert {fact.name for fact in reader.close().facts} >= {"kv_tokens", "context_tokens"}


def test_millions_of_different_errors_do_not_fill_the_memory() -> None:
    reader = Reader("vllm")
    for number in range(300):
        lines = b"".join(b"ValueError: number %d of %d\n" % (each, number) for each in range(100))
        reader.feed(lines)
    found = reader.close()
    assert found.outcome == "failed"
    assert len(found.evidence) <= 5


def test_a_line_of_json_that_nests_without_end_is_read_as_text() -> None:
    deep = '{"message": ' + "[" * 50_000 + "}"
    assert list(segments(deep))


def test_known_facts_lie_beside_every_log() -> None:
    for stem in LOGS:
        assert json.loads((FOLDER / f"{stem}.json").read_text())["outcome"]


def test_more_kinds_of_lines_than_are_remembered_state_the_same() -> None:
    log, letters = LOGS["202"], "ghijklmnop"
    words = ["".join(letters[int(digit)] for digit in str(number)) for number in range(9_000)]
    others = "".join(f"{word} is said by nobody\n" for word in words).encode()
    noisy = b"".join(line + b"\n" + others for line in log.split(b"\n")[:2])
    reader = Reader()
    reader.feed(noisy + log)
    assert {(fact.name, fact.value) for fact in reader.close().facts} == {
        (fact.name, fact.value) for fact in read(log).facts
    }
