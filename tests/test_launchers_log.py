"""The log file of a server: byte for byte, with times, without secrets, bounded."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.launchers import log as log_module
from runner.launchers.log import LogFile, follow


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in itertools.pairwise(ends)]


TEXT = st.text(alphabet="ab\n", max_size=60).map(str.encode)
CUTS = st.lists(st.integers(min_value=0, max_value=1000), max_size=8)


@given(data=TEXT, cuts=CUTS)
def test_output_in_any_pieces_is_written_whole_and_each_line_has_the_time_it_began(
    data: bytes, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    clock = Clock()
    log = LogFile(path, clock=clock)
    began = []
    fresh = True
    for number, piece in enumerate(pieces_of(data, cuts)):
        clock.now_s = 100.0 + number
        log.take(piece)
        for byte in piece:
            if fresh:
                began.append(float(number))
            fresh = byte == ord("\n")
    lines = range(len(began) + 2)
    assert [log.seconds_of_line(line) for line in lines] == [None, *began, None]
    log.close()
    assert path.read_bytes() == data


@given(before=TEXT, after=TEXT, cuts=CUTS)
def test_a_secret_is_masked_wherever_the_output_is_cut(
    before: bytes, after: bytes, cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    log = LogFile(path, secrets={"TOKEN": "s3cr3t"})
    for piece in pieces_of(before + b"s3cr3t" + after, cuts):
        log.take(piece)
    log.close()
    assert path.read_bytes() == before + b"[TOKEN]" + after


def test_a_beginning_of_a_secret_is_written_when_the_output_ends(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", secrets={"TOKEN": "s3cr3t"})
    log.take(b"ends in s3cr")
    assert (tmp_path / "log").read_bytes() == b"ends in "
    log.close()
    assert (tmp_path / "log").read_bytes() == b"ends in s3cr"


def test_a_value_too_short_to_be_a_secret_masks_nothing(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", secrets={"FLAG": "1"})
    log.take(b"1 of 10\n")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"1 of 10\n"


def test_beyond_the_limit_the_middle_is_left_out_and_the_end_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "TAIL_BYTES", 10)
    log = LogFile(tmp_path / "log", limit_bytes=8)
    for number in range(100):
        log.take(f"line {number:02}\n".encode())
    log.close()
    head, note, tail = (
        (tmp_path / "log").read_bytes().partition(b"\n[runner: 776 bytes left out here]\n")
    )
    assert (head, tail) == (b"line 00\n", b"line 98\nline 99\n")
    assert note


def test_times_of_very_many_lines_stay_bounded_and_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "MARKS", 64)
    clock = Clock()
    log = LogFile(tmp_path / "log", clock=clock)
    for number in range(5000):
        clock.now_s = 100.0 + number
        log.take(b"x\n")
    for line in (1, 1000, 4999):
        seconds = log.seconds_of_line(line)
        assert seconds is not None
        assert line - 1 - 5000 / 32 <= seconds <= line - 1
    log.close()


def test_a_pipe_is_followed_to_its_end(tmp_path: Path) -> None:
    source, sink = os.pipe()
    log = LogFile(tmp_path / "log")
    thread = follow(source, log)
    os.write(sink, b"first\n")
    os.write(sink, b"\xff\xfe last")
    os.close(sink)
    thread.join(10)
    log.close()
    assert (tmp_path / "log").read_bytes() == b"first\n\xff\xfe last"


def test_output_after_the_end_is_dropped_without_a_fault(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    log.close()
    log.take(b"late")
    log.close()
    assert (tmp_path / "log").read_bytes() == b""


def test_a_full_disk_stops_the_file_and_not_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    log = LogFile(path)
    log.take(b"before\n")
    with monkeypatch.context() as patch:
        patch.setattr("os.write", _full)
        log.take(b"lost for now\n")
    log.take(b"after\n")
    log.close()
    assert path.read_bytes() == b"before\nlost for now\nafter\n"


def _full(*_: object) -> int:
    raise OSError(28, "No space left on device")
