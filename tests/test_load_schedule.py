"""What goes next and when, without a clock or a socket."""

from __future__ import annotations

import os

import pytest

from runner.load import Ask, Target
from runner.load.feed import Errand, Feed, asked_from, asked_of, framed, head_of
from runner.load.schedule import Schedule


def errand(number: int, due_ns: int = -1, *, warmup: bool = False) -> Errand:
    return Errand(number=number, wire=b"x", asked=b"", due_ns=due_ns, warmup=warmup)


def closed(cap: int = 2, duration_ns: int | None = None) -> Schedule:
    return Schedule(closed_loop=True, cap=cap, duration_ns=duration_ns, opens_after_ns=0)


def opened(cap: int = 100, duration_ns: int | None = None, opens_after_ns: int = 0) -> Schedule:
    return Schedule(
        closed_loop=False, cap=cap, duration_ns=duration_ns, opens_after_ns=opens_after_ns
    )


def test_nothing_goes_before_the_load_begins() -> None:
    schedule = closed()
    schedule.add(errand(0))
    assert schedule.next(10, 0) is None
    schedule.begin(20)
    assert schedule.next(10, 0) is None
    assert schedule.wake_ns == 20
    assert schedule.next(20, 0) == errand(0)


def test_a_closed_loop_never_exceeds_its_slots() -> None:
    schedule = closed(cap=2)
    schedule.begin(0)
    schedule.add(errand(0))
    assert schedule.next(1, 2) is None
    assert schedule.next(1, 1) == errand(0)


def test_an_open_loop_waits_for_each_due_time_from_the_beginning() -> None:
    schedule = opened()
    schedule.add(errand(0, 100))
    schedule.begin(1000)
    assert schedule.next(1099, 0) is None
    assert schedule.wake_ns == 1100
    assert schedule.next(1100, 0) == errand(0, 100)
    assert schedule.intended_ns(errand(0, 100)) == 1100


def test_an_untimed_warm_up_goes_before_the_beginning_and_must_end_first() -> None:
    schedule = opened()
    schedule.ended = True
    schedule.add(errand(0, warmup=True))
    schedule.add(errand(1, 0))
    assert not schedule.is_primed(0)
    assert schedule.next(5, 0) == errand(0, warmup=True)
    assert schedule.next(5, 1) is None
    assert not schedule.is_primed(1)
    assert schedule.is_primed(0)


def test_the_first_send_of_the_window_sets_its_end_in_closed_loop() -> None:
    schedule = closed(duration_ns=500)
    schedule.note_sent(errand(0, warmup=True), 10)
    assert schedule.end_ns is None
    schedule.note_sent(errand(1), 40)
    schedule.note_sent(errand(2), 60)
    assert schedule.end_ns == 540


def test_the_beginning_sets_the_end_in_open_loop() -> None:
    schedule = opened(duration_ns=500, opens_after_ns=100)
    schedule.begin(1000)
    assert schedule.end_ns == 1600


def test_what_was_due_but_had_no_room_is_told_at_the_close() -> None:
    schedule = opened()
    schedule.begin(0)
    for number, due_ns in enumerate([10, 20, 900]):
        schedule.add(errand(number, due_ns))
    assert schedule.close(500) == [errand(0, 10), errand(1, 20)]
    assert schedule.ended
    assert len(schedule) == 0


def test_nothing_is_sent_after_the_end_of_the_window() -> None:
    timed, slots = opened(duration_ns=500), closed(duration_ns=500)
    for schedule in (timed, slots):
        schedule.begin(1000)
        schedule.note_sent(errand(9), 1000)
    timed.add(errand(0, 499))
    timed.add(errand(1, 500))
    assert timed.next(2000, 0) == errand(0, 499)
    assert timed.next(2000, 0) is None
    assert timed.close(2000) == []
    slots.add(errand(0))
    slots.add(errand(1))
    assert slots.next(1499, 0) == errand(0)
    assert slots.next(1500, 0) is None


def test_a_refusal_rests_a_closed_loop_for_a_moment() -> None:
    schedule = closed()
    schedule.begin(0)
    schedule.add(errand(0))
    schedule.note_refused(1000)
    assert schedule.next(1001, 0) is None
    assert schedule.next(200_000_000, 0) == errand(0)


def test_more_is_wanted_only_while_there_is_room_ahead() -> None:
    schedule = closed(cap=100)
    for number in range(200):
        assert schedule.wants_more()
        schedule.add(errand(number))
    assert not schedule.wants_more()
    assert schedule.is_primed(0)


def turn(number: int, after: int, think_ns: int = 0) -> Errand:
    return Errand(
        number=number, wire=b"x", asked=b"", due_ns=-1, warmup=False, after=after, think_ns=think_ns
    )


def test_a_later_turn_waits_for_the_answer_and_the_think_time() -> None:
    schedule = opened()
    schedule.begin(0)
    for one in (errand(0, 10), turn(1, 0, think_ns=50), errand(2, 500)):
        schedule.add(one)
    first = schedule.next(10, 0)
    assert first == errand(0, 10)
    assert schedule.next(400, 1) is None
    schedule.note_ended(errand(0, 10), 420, whole=True)
    assert schedule.next(469, 0) is None
    assert schedule.wake_ns == 470
    later = schedule.next(470, 0)
    assert later is not None
    assert later.number == 1
    assert schedule.intended_ns(later) == 470


def test_a_turn_whose_answer_came_before_it_did_is_not_lost() -> None:
    schedule = closed(cap=1)
    schedule.begin(0)
    schedule.add(errand(0))
    assert schedule.next(5, 0) == errand(0)
    schedule.note_ended(errand(0), 100, whole=True)
    schedule.add(turn(1, 0, think_ns=30))
    assert schedule.next(129, 0) is None
    assert schedule.next(130, 0) == turn(1, 0, think_ns=30)


def test_a_slot_does_not_wait_for_a_thinking_user() -> None:
    schedule = closed(cap=1)
    schedule.begin(0)
    for one in (errand(0), turn(1, 0, think_ns=1000), errand(2)):
        schedule.add(one)
    schedule.next(5, 0)
    schedule.note_ended(errand(0), 100, whole=True)
    assert schedule.next(101, 0) == errand(2)
    assert schedule.next(1100, 0) == turn(1, 0, think_ns=1000)
    assert len(schedule) == 0


def test_a_failed_answer_ends_its_session() -> None:
    schedule = closed(cap=2)
    schedule.begin(0)
    for one in (errand(0), turn(1, 0), turn(2, 1), turn(3, 0), errand(4), turn(5, 4)):
        schedule.add(one)
    schedule.next(5, 0)
    lost = schedule.note_ended(errand(0), 100, whole=False)
    assert [one.number for one in lost] == [1, 2, 3]
    assert len(schedule) == 2


TARGET = Target(host="::1", port=8000, path="/v1/completions", headers={"X-Key": "Bearer k"})


def test_a_request_crosses_the_pipe_whole_however_it_is_cut() -> None:
    ask = Ask(
        body=b'{"a": 1}', input_tokens=3, output_tokens=4, group="ü", role="victim", due_s=1.5
    )
    frames = framed(7, ask, head_of(TARGET), warmup=True) + framed(
        8, Ask(body=b"{}"), head_of(TARGET), warmup=False
    )
    reading, writing = os.pipe()
    feed = Feed(reading)
    found = []
    for at in range(0, len(frames), 5):
        os.write(writing, frames[at : at + 5])
        found += feed.read()
    assert [one.number for one in found] == [7, 8]
    assert found[0].wire.endswith(b'Content-Length: 8\r\n\r\n{"a": 1}')
    assert found[0].wire.startswith(b"POST /v1/completions HTTP/1.1\r\nHost: [::1]:8000\r\n")
    assert b"X-Key: Bearer k\r\n" in found[0].wire
    assert (found[0].due_ns, found[0].warmup) == (1_500_000_000, True)
    assert (found[1].due_ns, found[1].warmup) == (-1, False)
    asked = asked_from(found[0].asked)
    assert (asked.group, asked.role) == ("ü", "victim")
    assert (asked.input_tokens, asked.output_tokens) == (3, 4)
    assert asked_from(asked_of(Ask(body=b""))).input_tokens is None
    os.close(writing)
    assert feed.read() == []
    assert feed.ended
    os.close(reading)


def test_a_header_cannot_smuggle_a_line() -> None:
    target = Target(host="h", port=1, path="/", headers={"X": "a\r\nY: b"})
    with pytest.raises(ValueError, match="line break"):
        head_of(target)
