"""A night: its order, its end, and who hears of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from runner.cli import main
from runner.errors import ExperimentError
from runner.experiment.night import read_night
from runner.nights.nightly import deadline_of, name_of, post
from runner.nights.page import Page
from runner.plan import expand
from runner.stored.store import Store
from tests.nights import EXPERIMENT, Box, a_night, written


def test_each_block_of_every_experiment_comes_before_the_next_block_of_any(
    tmp_path: Path, box: Box
) -> None:
    a_night(written(tmp_path, "one", "two", boots=2), "n1")
    assert box.ran == [("one", 0), ("two", 0), ("one", 1), ("two", 1)]


def test_a_night_that_was_cut_is_resumed_and_nothing_runs_twice(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=3)
    moment = datetime(2026, 12, 1, 22, tzinfo=UTC)
    times = iter([moment, moment + timedelta(hours=9), moment + timedelta(hours=9)])
    first = a_night(file, "n1", deadline=moment + timedelta(hours=8), now=lambda: next(times))
    assert box.ran == [("one", 0)]
    assert first.exit_code == 4
    assert "one: block 1, about" in first.head
    assert "2 blocks not reached, which is no regression" in first.headline
    a_night(file, "n1")
    assert box.ran == [("one", 0), ("one", 1), ("one", 2)]
    assert len(Store(tmp_path / "results", "one").runs()) == 1


def test_a_complete_night_asked_again_starts_nothing_and_writes_its_page(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one", boots=2)
    first = a_night(file, "n1")
    box.ran.clear()
    again = a_night(file, "n1")
    assert box.ran == []
    assert again.headline == first.headline
    assert "4 of 4" in again.head


def test_what_is_short_enough_still_runs_when_something_longer_does_not(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "long", "short", boots=1)
    (tmp_path / "long.toml").write_text(
        EXPERIMENT.format(boots=1).replace("requests = 256", "duration_s = 3000")
    )
    moment = datetime(2026, 12, 1, 22, tzinfo=UTC)
    page = a_night(file, "n1", deadline=moment + timedelta(minutes=20), now=lambda: moment)
    assert box.ran == [("short", 0)]
    assert "long: block 0, about" in page.head


def test_past_boots_say_how_long_a_block_takes(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=1)
    box.columns = {"load_s": 7200.0}
    a_night(file, "n1")
    box.ran.clear()
    moment = datetime(2026, 12, 2, 22, tzinfo=UTC)
    page = a_night(file, "n2", deadline=moment + timedelta(hours=4), now=lambda: moment)
    assert "one: block 0, about 4 h" in page.head
    assert box.ran == []


def test_an_experiment_never_run_is_expected_by_other_boots_of_its_engine(
    tmp_path: Path, box: Box
) -> None:
    """A plan guesses over an hour; past loads took a twentieth of what a plan guesses."""
    file = written(tmp_path, "known", "new", boots=1)
    new = EXPERIMENT.format(boots=1).replace("requests = 256", "requests = 80000")
    (tmp_path / "new.toml").write_text(new)
    box.columns = {"load_s": 0.5}
    moment = datetime(2026, 12, 1, 22, tzinfo=UTC)
    a_night(file, "n1", deadline=moment + timedelta(minutes=20), now=lambda: moment)
    assert box.ran == [("known", 0), ("new", 0)]


def test_the_page_says_what_an_estimate_rests_on(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", "two", boots=2)
    moment = datetime(2026, 12, 1, 22, tzinfo=UTC)
    hours = iter([0, 0, 9, 9])
    page = a_night(
        file,
        "n1",
        deadline=moment + timedelta(hours=8),
        now=lambda: moment + timedelta(hours=next(hours)),
    )
    assert "one: block 1, about 4 min, by its past boots" in page.head


def test_a_load_whose_length_is_given_is_not_expected_to_end_sooner(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "known", "new", boots=1)
    new = EXPERIMENT.format(boots=1).replace("requests = 256", "duration_s = 3000")
    (tmp_path / "new.toml").write_text(new)
    box.columns = {"load_s": 0.5}
    moment = datetime(2026, 12, 1, 22, tzinfo=UTC)
    page = a_night(file, "n1", deadline=moment + timedelta(minutes=90), now=lambda: moment)
    assert box.ran == [("known", 0)]
    assert "new: block 0, about 2 h 32 min, by other experiments' boots of this vllm" in page.head


def test_an_experiment_that_cannot_run_is_left_out_and_the_others_go_on(
    tmp_path: Path, box: Box
) -> None:
    box.refused = {"one"}
    page = a_night(written(tmp_path, "one", "two", boots=2), "n1")
    assert box.ran == [("two", 0), ("two", 1)]
    assert page.exit_code == 3
    assert "left out: one" in page.headline
    assert "the image is missing; pull it" in page.head


@contextmanager
def listening() -> Iterator[tuple[str, list[bytes]]]:
    told: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", told
    finally:
        server.shutdown()
        server.server_close()


def test_a_webhook_hears_the_headline_and_its_failure_changes_nothing(tmp_path: Path) -> None:
    page = Page(name="n1", headline="No verdict.", head="", exit_code=4)
    with listening() as (url, told):
        assert post(url, page, tmp_path) == ""
    assert b"No verdict." in told[0]
    assert "the webhook was not told" in post("http://127.0.0.1:9/", page, tmp_path)


def test_a_webhook_without_its_variable_is_refused_before_anything_starts(
    tmp_path: Path, box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RUNNER_WEBHOOK", raising=False)
    file = written(tmp_path, "one")
    ran = CliRunner().invoke(main, ["nightly", str(file), "--webhook"])
    assert ran.exit_code == 2
    assert box.ran == []


def test_a_night_is_named_by_the_day_it_began() -> None:
    assert name_of(datetime(2026, 12, 1, 22, 30, tzinfo=UTC)) == "2026-12-01"
    assert name_of(datetime(2026, 12, 2, 6, 59, tzinfo=UTC)) == "2026-12-01"


def test_a_night_ends_at_the_next_such_hour_or_after_a_budget() -> None:
    begun = datetime(2026, 12, 1, 22, 30, tzinfo=UTC)
    assert deadline_of("07:00", None, begun) == datetime(2026, 12, 2, 7, tzinfo=UTC)
    assert deadline_of("23:00", None, begun) == datetime(2026, 12, 1, 23, tzinfo=UTC)
    assert deadline_of(None, "2h30m", begun) == datetime(2026, 12, 2, 1, tzinfo=UTC)
    assert deadline_of(None, None, begun) is None


@pytest.mark.parametrize(
    ("until", "budget"), [("7", None), ("25:00", None), (None, "six"), ("07:00", "1h")]
)
def test_an_end_that_is_none_is_refused(until: str | None, budget: str | None) -> None:
    with pytest.raises(ExperimentError):
        deadline_of(until, budget, datetime(2026, 12, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('experiments = ["one.toml", "deep/one.toml"]', '"one" is there twice'),
        ("experiments = []", "experiments"),
        ('experiments = ["one.toml"]\nmetrics = "x"', "unknown key"),
        ('experiments = ["none.toml"]', "No such file"),
        ('experiments = ["one.toml"]\n[reference]\nengine = "vlm"', "[reference] does not fit"),
    ],
)
def test_a_wrong_file_of_a_night_is_refused_with_its_reason(
    tmp_path: Path, text: str, said: str
) -> None:
    file = written(tmp_path, "one")
    file.write_text(text)
    with pytest.raises(ExperimentError, match=re.escape(said)):
        read_night(file)


def test_the_pinned_cell_stands_once_in_every_block_whatever_the_matrix(tmp_path: Path) -> None:
    file = written(tmp_path, "one")
    text = EXPERIMENT.format(boots=3) + "[matrix]\nmax_running = [8, 16]\n"
    (tmp_path / "one.toml").write_text(text)
    [experiment] = read_night(file).experiments
    labels = [boot.cell.label for boot in expand(experiment).boots if boot.block == 1]
    assert sorted(labels) == ["reference", "vllm max_running=16", "vllm max_running=8"]


def test_the_pinned_cell_is_no_pair_of_a_comparison(tmp_path: Path, box: Box) -> None:
    page = a_night(written(tmp_path, "one", boots=2), "n1")
    assert "Comparison of declared pairs" not in page.text


@pytest.mark.parametrize("rehearse", [False, True])
def test_the_night_that_comes_along_plans_with_a_pinned_cell_in_each_block(rehearse: bool) -> None:
    file = Path(__file__).parent.parent / "experiments" / "night.toml"
    night = read_night(file, rehearse=rehearse)
    assert len(night.experiments) == len(night.keys.experiments)
    for experiment in night.experiments:
        plan = expand(experiment)
        pinned = [boot.block for boot in plan.boots if boot.cell.name == "reference"]
        assert sorted(pinned) == list(range(experiment.boots))
        assert plan.inapplicable == ()
