"""Whole loads against the golden server: slots, schedules, windows, aborts and the proof."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.load import Ask, Timeline
from runner.load.drive import Driven, drive
from runner.load.golden import Plan
from runner.load.golden.process import Golden, golden_ask, served

QUICK = Plan(ttft_s=0.02, itl_s=0.002)


@pytest.fixture
def golden(tmp_path: Path) -> Iterator[Golden]:
    with served(QUICK, tmp_path / "truth") as server:
        yield server


Load = Callable[..., Driven]


@pytest.fixture
def load(golden: Golden, tmp_path: Path) -> Load:
    def run(
        asks: Iterable[Ask],
        *,
        in_flight: int | None,
        warmup: Iterable[Ask] = (),
        workers: int = 1,
        stop_when: Callable[[], str | None] = lambda: None,
        tell_flying: Callable[[int], None] = lambda flying: None,
        duration_s: float | None = None,
        max_in_flight: int | None = None,
    ) -> Driven:
        return drive(
            target=golden.target(),
            asks=asks,
            in_flight=in_flight,
            warmup=warmup,
            workers=workers,
            request_timeout_s=10.0,
            spool=tmp_path / "spool",
            stop_when=stop_when,
            tell_flying=tell_flying,
            duration_s=duration_s,
            max_in_flight=max_in_flight,
        )

    return run


def some(count: int, tokens: int = 10, **more: object) -> list[Ask]:
    return [golden_ask(number, output_tokens=tokens, changes=more) for number in range(count)]


def timed(dues_s: Iterable[float], tokens: int = 3) -> list[Ask]:
    return [golden_ask(n, output_tokens=tokens, due_s=due_s) for n, due_s in enumerate(dues_s)]


def most_in_flight(timelines: Iterable[Timeline]) -> int:
    moments = sorted(
        moment
        for one in timelines
        for moment in ((one.sent_ns, 1), (one.ended_ns, -1))
        if one.sent_ns
    )
    return max(itertools.accumulate(step for _, step in moments))


def test_a_closed_loop_holds_exactly_what_was_asked(load: Load) -> None:
    driven = load(some(60), in_flight=6)
    timelines = list(driven.timelines())
    assert [one.outcome for one in timelines] == ["ok"] * 60
    assert most_in_flight(timelines) == 6
    assert driven.proof.held_in_flight_ratio == pytest.approx(1, abs=0.1)
    assert driven.aborted is None


def test_requests_are_numbered_in_the_order_asked(load: Load) -> None:
    asks = [golden_ask(n, output_tokens=3, group=f"g{n}") for n in range(20)]
    driven = load(asks, in_flight=4, warmup=some(2), workers=2)
    found = {one.request: (one.group, one.warmup) for one in driven.timelines()}
    assert found == {
        0: ("", True),
        1: ("", True),
        **{number + 2: (f"g{number}", False) for number in range(20)},
    }


def test_timelines_can_be_read_again(load: Load) -> None:
    driven = load(some(5), in_flight=2)
    assert list(driven.timelines()) == list(driven.timelines())


def test_the_warm_up_hands_its_slots_over_without_a_drain(load: Load) -> None:
    warmup = some(4, tokens=40)
    warmup[0] = golden_ask(0, output_tokens=5)
    driven = load(some(20), in_flight=4, warmup=warmup)
    timelines = list(driven.timelines())
    last_warm_ns = max(one.ended_ns for one in timelines if one.warmup)
    assert driven.opened_ns < last_warm_ns
    assert driven.opened_ns == min(one.sent_ns for one in timelines if not one.warmup)


def test_the_steady_window_leaves_out_what_was_not_full(load: Load) -> None:
    driven = load([*some(12), golden_ask(99, output_tokens=100)], in_flight=4)
    assert driven.steady is not None
    assert driven.opened_ns <= driven.steady.from_ns < driven.steady.to_ns
    assert driven.steady.to_ns < driven.closed_ns - 50_000_000


def test_a_window_can_end_by_time(load: Load) -> None:
    endless = (golden_ask(number, output_tokens=10) for number in itertools.count())
    driven = load(endless, in_flight=4, duration_s=0.5)
    timelines = list(driven.timelines())
    assert driven.closed_ns - driven.opened_ns == 500_000_000
    assert {one.outcome for one in timelines} == {"ok"}
    assert max(one.sent_ns for one in timelines) <= driven.closed_ns + 100_000_000
    assert len(timelines) > 8


def test_requests_of_an_open_loop_leave_at_their_own_times(load: Load) -> None:
    dues_s = [0.0, 0.05, 0.05, 0.2, 0.3]
    driven = load(timed(dues_s), in_flight=None)
    timelines = sorted(driven.timelines(), key=lambda one: one.request)
    intended = [((one.intended_ns or 0) - driven.opened_ns) / 1e9 for one in timelines]
    assert intended == pytest.approx(dues_s)
    assert all(one.sent_ns >= (one.intended_ns or 0) for one in timelines)
    assert driven.proof.drawn_per_s == pytest.approx(4 / 0.3)
    assert driven.proof.send_lag_max_s is not None


def test_the_warm_up_of_an_open_loop_may_have_times_of_its_own(load: Load) -> None:
    driven = load(timed([0.0, 0.1]), in_flight=None, warmup=timed([0.0, 0.2]))
    timelines = sorted(driven.timelines(), key=lambda one: one.request)
    intended = [((one.intended_ns or 0) - driven.opened_ns) / 1e9 for one in timelines]
    assert intended == pytest.approx([-0.2, 0.0, 0.0, 0.1])


def test_an_untimed_warm_up_of_an_open_loop_is_over_before_the_window(load: Load) -> None:
    driven = load(timed([0.0, 0.1]), in_flight=None, warmup=some(5))
    warm = [one for one in driven.timelines() if one.warmup]
    assert len(warm) == 5
    assert max(one.ended_ns for one in warm) < driven.opened_ns


def test_a_cap_on_requests_in_flight_makes_the_others_wait(load: Load) -> None:
    driven = load(timed([0.0] * 6, tokens=20), in_flight=None, max_in_flight=2)
    timelines = list(driven.timelines())
    assert most_in_flight(timelines) == 2
    waits = sorted(one.sent_ns - (one.intended_ns or 0) for one in timelines)
    assert waits[-1] > 50_000_000


def test_requests_that_found_no_room_in_the_window_are_cancelled_not_lost(load: Load) -> None:
    driven = load(timed([0.0] * 40, tokens=50), in_flight=None, max_in_flight=2, duration_s=0.3)
    outcomes = [one.outcome for one in driven.timelines()]
    assert len(outcomes) == 40
    assert outcomes.count("cancelled") > 30


def test_arrivals_after_the_end_of_the_window_are_not_sent(load: Load) -> None:
    driven = load(timed([0.0, 0.1, 5.0]), in_flight=None, duration_s=0.3)
    assert len(list(driven.timelines())) == 2


def test_workers_share_the_slots_and_the_requests(load: Load) -> None:
    driven = load(some(40), in_flight=5, workers=2)
    timelines = list(driven.timelines())
    assert len(timelines) == 40
    assert most_in_flight(timelines) == 5
    assert driven.proof.workers == 2
    assert len(driven.proof.cpu_s) == 2
    assert [shard.stat().st_size > 0 for shard in driven.shards] == [True, True]


def answers_came(tmp_path: Path) -> bool:
    return any((tmp_path / "spool").glob("worker-*/raw/*.raw"))


def test_a_sentence_of_the_watcher_ends_the_load(load: Load, tmp_path: Path) -> None:
    def died() -> str | None:
        return "the server died" if answers_came(tmp_path) else None

    asks = (golden_ask(n, output_tokens=10 if n == 0 else 5000) for n in itertools.count())
    driven = load(asks, in_flight=3, stop_when=died)
    assert driven.aborted == "the server died"
    cut = [one for one in driven.timelines() if one.outcome == "cancelled"]
    assert [one.detail for one in cut] == ["the server died"] * 3


def test_while_it_runs_a_load_tells_how_many_requests_of_all_workers_are_in_flight(
    load: Load,
) -> None:
    told: list[int] = []
    asks = (golden_ask(n, output_tokens=50_000) for n in itertools.count())
    driven = load(
        asks,
        in_flight=5,
        workers=2,
        tell_flying=told.append,
        stop_when=lambda: "seen" if 5 in told else None,
    )
    assert driven.aborted == "seen"
    assert max(told) == 5


def test_a_worker_that_dies_ends_the_load_and_what_it_measured_is_kept(
    load: Load, tmp_path: Path
) -> None:
    killed: list[int] = []

    def watch() -> None:
        for folder in Path("/proc").glob("[0-9]*") if answers_came(tmp_path) else ():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if b"runner.load.worker" in words and _parent(folder) == os.getpid():
                    os.kill(int(folder.name), signal.SIGKILL)
                    killed.append(int(folder.name))

    endless = (golden_ask(number, output_tokens=10) for number in itertools.count())
    driven = load(endless, in_flight=2, stop_when=watch)
    assert killed
    assert driven.aborted is not None
    assert "worker process ended with code -9" in driven.aborted
    assert {one.outcome for one in driven.timelines()} == {"ok"}


ENDLESS = """
import itertools, sys
from pathlib import Path
from runner.load import Target
from runner.load.drive import drive
from runner.load.golden.process import golden_ask
drive(
    target=Target(host="127.0.0.1", port=int(sys.argv[1]), path="/v1/completions"),
    asks=(golden_ask(number, output_tokens=20) for number in itertools.count()),
    in_flight=4,
    request_timeout_s=60,
    spool=Path(sys.argv[2]),
)
"""


@pytest.mark.parametrize("moment", ["as its workers start", "in the middle"])
def test_no_process_of_a_load_outlives_its_runner(
    golden: Golden, tmp_path: Path, moment: str
) -> None:
    spool, mark = tmp_path / "spool", f"RUNNER_TEST_LOAD={tmp_path}"
    name, _, value = mark.partition("=")
    command = [sys.executable, "-c", ENDLESS, str(golden.target().port), str(spool)]
    with subprocess.Popen(command, env={**os.environ, name: value}) as runner:
        sign = "worker-0" if moment == "as its workers start" else "worker-0/raw/*"
        deadline_s = time.monotonic() + 30
        while not list(spool.glob(sign)) and time.monotonic() < deadline_s:
            time.sleep(0.001)
        runner.kill()
    while (left := _marked(mark)) and time.monotonic() < deadline_s + 30:
        time.sleep(0.05)
    assert left == []


def _marked(mark: str) -> list[int]:
    """Return the processes whose environment holds a variable."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def _parent(folder: Path) -> int:
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def test_a_long_answer_comes_back_whole(load: Load) -> None:
    asks = [golden_ask(0, output_tokens=2000, changes={"itl_s": 0.001})]
    (one,) = load(asks, in_flight=1).timelines()
    assert one.outcome == "ok"
    assert len(one.chunk_ns) == 2000
    assert list(one.chunk_ns) == sorted(one.chunk_ns)


def test_a_long_prompt_is_sent_whole(load: Load) -> None:
    asks = [golden_ask(n, output_tokens=2, input_tokens=200_000) for n in range(6)]
    timelines = list(load(asks, in_flight=3).timelines())
    assert [one.outcome for one in timelines] == ["ok"] * 6
    assert {one.input_tokens for one in timelines} == {200_000}


def test_a_name_with_several_addresses_leads_to_the_one_that_answers(
    golden: Golden, tmp_path: Path
) -> None:
    driven = drive(
        target=replace(golden.target(), host="localhost"),
        asks=some(2),
        in_flight=1,
        request_timeout_s=10,
        spool=tmp_path / "spool",
    )
    assert [one.outcome for one in driven.timelines()] == ["ok", "ok"]


def test_connections_are_used_again(load: Load) -> None:
    assert load(some(30, tokens=3), in_flight=3).proof.connections == 3


def test_the_proof_counts_tokens_twice_and_reads_by_their_stamps(load: Load) -> None:
    proof = load(some(20), in_flight=4).proof
    assert proof.tokens_by_chunks == proof.tokens_by_usage == 200
    assert proof.stamp == "kernel"
    assert proof.client_lag_p50_s is not None
    assert proof.client_lag_p50_s > 0
    assert proof.unstamped_ratio is not None
    assert proof.unstamped_ratio < 0.1
    assert proof.cpu_per_token_s is not None
    assert proof.input_mismatches == 0
    assert proof.way == "loopback"


def test_prompts_of_another_length_than_asked_are_counted(load: Load) -> None:
    right = golden_ask(0, output_tokens=3, input_tokens=7)
    wrong = Ask(body=right.body, input_tokens=9, output_tokens=3)
    assert load([right, wrong], in_flight=1).proof.input_mismatches == 1


def session(first: int, turns: int, due_s: float | None) -> list[Ask]:
    asks = [golden_ask(first + number, output_tokens=5) for number in range(turns)]
    chained = [replace(ask, after=first + n, think_s=0.05) for n, ask in enumerate(asks[1:])]
    return [replace(asks[0], due_s=due_s), *chained]


@pytest.mark.parametrize("in_flight", [2, None], ids=["closed loop", "open loop"])
def test_turns_of_a_session_wait_for_one_another(load: Load, in_flight: int | None) -> None:
    due_s = None if in_flight else 0.0
    asks = [*session(0, 3, due_s), *session(3, 3, due_s), *session(6, 2, due_s)]
    driven = load(asks, in_flight=in_flight, warmup=some(1), workers=2)
    found = {one.request - 1: one for one in driven.timelines()}
    assert len(found) == 9
    for number, ask in enumerate(asks):
        if ask.after is not None:
            gap_ns = found[number].sent_ns - found[ask.after].ended_ns
            assert gap_ns >= 50_000_000
    assert {one.outcome for one in found.values()} == {"ok"}


def test_a_turn_cannot_wait_for_a_later_one(load: Load) -> None:
    with pytest.raises(ValueError, match="not before it"):
        load([replace(some(1)[0], after=0)], in_flight=1)


def test_due_times_that_go_back_are_refused(load: Load) -> None:
    with pytest.raises(ValueError, match="must not decrease"):
        load(timed([0.2, 0.1]), in_flight=None)


def test_an_open_loop_without_times_is_refused(load: Load) -> None:
    with pytest.raises(ValueError, match="needs its due time"):
        load(some(1), in_flight=None)


def test_a_worker_loads_the_standard_library_and_the_client_only() -> None:
    code = (
        "import sys, json, runner.load.worker, runner.load.parse, runner.load.golden.__main__\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    foreign = set(json.loads(found.stdout)) - sys.stdlib_module_names - {"runner", "__main__"}
    site = {name for name in foreign if name.startswith(("_", "sitecustomize", "usercustomize"))}
    assert foreign - site == set()
