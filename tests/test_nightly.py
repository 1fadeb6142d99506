"""A night: its order, its end, and what it says of itself against earlier nights."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from runner.cli import main
from runner.errors import ExperimentError, HostError
from runner.experiment.night import read_night
from runner.nights import nightly as nights
from runner.nights.nightly import deadline_of, name_of, nightly, post
from runner.nights.page import Page, page_of
from runner.plan import Plan, expand
from runner.plan.rows import cell_rows
from runner.run import NightPart
from runner.stored.store import Store
from runner.summary import Summary
from runner.world import World

EXPERIMENT = """
question = "Does it hold?"
boots = {boots}
[common]
model = "Qwen/Qwen3-1.7B"
memory = {{ kv_tokens = 60000 }}
[engines.vllm]
simulate = {{}}
[[loads]]
workload = "random"
input_tokens = 512
output_tokens = 128
concurrency = 64
requests = 256
"""
PINNED = '[reference]\nengine = "vllm"\nversion = "0.31.0"\nsimulate = {}\n'


def _stored() -> Any:
    path = Path(__file__).parent / "stored.py"
    spec = importlib.util.spec_from_file_location("stored_rows", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


STORED = _stored()
Speed = Callable[[str, str, int], float]
"""(night, label, block) -> how fast a boot is."""


class Box:
    """Stands in for `execute`: stores boots at once, as fast as it is told."""

    def __init__(self, speed: Speed = lambda night, label, block: 1.0) -> None:
        self.speed = speed
        self.ran: list[tuple[str, int]] = []
        self.columns: dict[str, Any] = {}
        self.refused: set[str] = set()

    def execute(
        self,
        plan: Plan,
        world: World,
        results: Path,
        *,
        watch: Any = None,
        part: NightPart | None = None,
    ) -> Summary:
        assert part is not None
        experiment = plan.experiment.name
        if experiment in self.refused:
            raise HostError("the image is missing; pull it")
        store = Store(results, experiment)
        text = plan.experiment.path.read_text()
        stored = STORED.Stored.__new__(STORED.Stored)
        stored.night = part.night
        stored.run = store.latest(plan.content_id, part.night) or store.new_run(
            plan.content_id, text, part.night
        )
        stored.run.put_cells(cell_rows(plan))
        done = {(row["cell_id"], row["boot"]) for row in stored.run.boots()}
        missing = [boot for boot in plan.boots if boot.block in part.blocks]
        missing = [boot for boot in missing if (boot.cell.cell_id, boot.boot) not in done]
        for boot in missing:
            rate = 800 * self.speed(part.night, boot.cell.label, boot.block)
            load = {"load": "random@c64", "output_tokens_per_s": rate}
            usual = {"kv_tokens": 60_000, **self.columns}
            stored.boot(boot.cell.cell_id, boot.boot, [load], **usual)
        self.ran += [(experiment, block) for block in dict.fromkeys(b.block for b in missing)]
        return Summary(
            folder=store.folder,
            run_id=stored.run.run_id,
            started=len(missing),
            stored=len(stored.run.boots()),
            total=len(plan.boots),
            unexpected=0,
            void_loads=0,
        )


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    made = Box()
    monkeypatch.setattr(nights, "execute", made.execute)
    return made


def written(folder: Path, *names: str, boots: int = 5, pinned: bool = True) -> Path:
    for name in names:
        (folder / f"{name}.toml").write_text(EXPERIMENT.format(boots=boots))
    listed = ", ".join(f'"{name}.toml"' for name in names)
    (folder / "night.toml").write_text(f"experiments = [{listed}]\n{PINNED if pinned else ''}")
    return folder / "night.toml"


def nights_before(file: Path, names: list[str]) -> None:
    """Run nights whose pages nobody reads."""
    night = read_night(file)
    for name in names:
        nightly(night, World(), file.parent / "results", name=name)


def a_night(file: Path, name: str, **options: Any) -> Page:
    night = read_night(file)
    results = file.parent / "results"
    shares = nightly(night, World(), results, name=name, **options)
    return page_of(shares, night.keys, results, name)


def noisy(night_sd: float, boot_sd: float, slow: dict[str, float] | None = None) -> Speed:
    """Return boots that a night moves together and that vary by themselves."""

    def speed(night: str, label: str, block: int) -> float:
        moved = 1 + random.Random(f"{night}/night").gauss(0, night_sd)
        own = 1 + random.Random(f"{night}/{label}/{block}").gauss(0, boot_sd)
        factor = (slow or {}).get(night, 1.0) if label != "reference" else 1.0
        return moved * own * factor

    return speed


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


def test_the_first_night_has_nothing_to_be_held_against(tmp_path: Path, box: Box) -> None:
    page = a_night(written(tmp_path, "one"), "n1")
    assert page.headline == "No verdict: nothing to hold this night against yet."
    assert page.exit_code == 4


def test_a_slowdown_of_10_percent_is_called_through_a_night_effect(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.02, 0.01, slow={"n2": 0.9})
    a_night(file, "n1")
    page = a_night(file, "n2")
    assert page.exit_code == 1
    assert re.search(r"REGRESSION: one: vllm random@c64 is 0\.\d+ \[", page.headline)


def test_equal_nights_are_not_called_though_each_night_moves_all(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.02, 0.01)
    pages = [a_night(file, f"n{number}") for number in range(6)]
    assert [page.headline for page in pages if page.exit_code == 1] == []


def test_without_a_pinned_cell_a_difference_is_shown_and_not_called(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one", pinned=False)
    box.speed = noisy(0.0, 0.01, slow={"n2": 0.7})
    a_night(file, "n1")
    page = a_night(file, "n2")
    assert page.exit_code == 4
    assert "1 earlier nights; t prediction interval on night means needs 10" in page.head
    assert re.search(r"0\.(69|70|71)\d* \[", page.head)


def test_ten_earlier_nights_judge_without_a_pinned_cell(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=2, pinned=False)
    box.speed = noisy(0.005, 0.002, slow={"n10": 0.9})
    nights_before(file, [f"n{number:02}" for number in range(9)])
    assert a_night(file, "n09").exit_code == 4
    assert "REGRESSION" in a_night(file, "n10").headline


def test_a_change_is_told_since_about_which_night(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=1, pinned=False)
    slow = {f"n{number:02}": 0.9 for number in range(15, 24)}
    box.speed = noisy(0.004, 0.002, slow=slow)
    nights_before(file, [f"n{number:02}" for number in range(23)])
    page = a_night(file, "n23")
    assert "since about night n15" in page.head
    assert page.exit_code == 1


def test_a_changed_chunk_is_named_beside_the_number_that_moved(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    a_night(file, "n1")
    box.columns = {"chunk_tokens": 8192, "image_digest": "sha256:beef"}
    page = a_night(file, "n2")
    assert "chunk (2048 of prefill and decodes became 8192 of prefill and decodes)" in page.head
    assert "image (unknown became sha256:beef)" in page.head


def test_a_change_is_named_beside_what_was_configured_otherwise_that_night(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one", boots=1, pinned=False)
    box.speed = noisy(0.004, 0.002, slow={f"n{number:02}": 0.9 for number in range(20, 23)})
    nights_before(file, [f"n{number:02}" for number in range(20)])
    box.columns = {"chunk_tokens": 512}
    nights_before(file, ["n20", "n21"])
    page = a_night(file, "n22")
    told = "since about night n20, when this changed: chunk (2048 of prefill and decodes became 512"
    assert told in page.headline


def test_a_load_that_asks_otherwise_is_not_held_against_the_old_one(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one")
    a_night(file, "n1")
    text = (tmp_path / "one.toml").read_text().replace("output_tokens = 128", "output_tokens = 96")
    (tmp_path / "one.toml").write_text(text)
    box.speed = noisy(0.0, 0.01, slow={"n2": 0.5})
    page = a_night(file, "n2")
    assert "one: random@c64 asks otherwise: output_tokens (128 became 96)" in page.head
    assert "not comparable, for these changed: output_tokens (128 became 96)" in page.head
    assert page.exit_code == 4


def test_a_pinned_cell_that_changed_itself_pins_nothing(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    a_night(file, "n1")
    box.columns = {"image_digest": "sha256:beef"}
    box.speed = noisy(0.0, 0.01, slow={"n2": 0.8})
    page = a_night(file, "n2")
    assert page.exit_code == 4
    assert "the pinned cell itself changed: image (unknown became sha256:beef)" in page.head


def test_a_night_that_was_cut_is_passed_over_for_one_with_enough_boots(
    tmp_path: Path, box: Box
) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.0, 0.01, slow={"n3": 0.8})
    a_night(file, "n1")
    moment = datetime(2026, 12, 1, 22, tzinfo=UTC)
    times = iter([moment, *[moment + timedelta(hours=9)] * 4])
    a_night(file, "n2", deadline=moment + timedelta(hours=8), now=lambda: next(times))
    page = a_night(file, "n3")
    assert "REGRESSION" in page.headline
    assert "| night n1" in page.head


def test_each_figure_says_whether_to_believe_it(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one")
    box.speed = noisy(0.01, 0.002)
    a_night(file, "n1")
    boot_doubt = {"name": "gpu_throttled", "severity": "suspect", "subject": "GPU"}
    box.columns = {"doubts": [boot_doubt | {"sentence": "hot", "advice": ""}]}
    head = a_night(file, "n2").head
    assert "yes: 5 boots each, against the pinned cell; with care: gpu_throttled" in head
    assert "simulated: of a mechanism, not of a GPU" in head
    assert "the pinned cell stands at" in head


def test_one_boot_is_no_figure_to_believe(tmp_path: Path, box: Box) -> None:
    head = a_night(written(tmp_path, "one", boots=1), "n1").head
    assert "no: one boot alone" in head


def test_a_figure_of_few_boots_is_a_range(tmp_path: Path, box: Box) -> None:
    head = a_night(written(tmp_path, "one", boots=3), "n1").head
    assert "as a range, which holds the next boot in 50 %" in head


def test_nights_on_another_gpu_take_no_part(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", boots=2, pinned=False)
    box.columns = {"gpu_names": ["NVIDIA A100"]}
    nights_before(file, [f"n{number:02}" for number in range(11)])
    box.columns = {}
    page = a_night(file, "n11")
    assert page.exit_code == 4
    assert "not comparable, for these changed: GPU" in page.head


def test_the_page_is_one_markdown_file_with_all_tables(tmp_path: Path, box: Box) -> None:
    file = written(tmp_path, "one", "two", boots=2)
    ran = CliRunner().invoke(
        main, ["nightly", str(file), "--results", str(tmp_path / "results"), "--night", "n1"]
    )
    assert ran.exit_code == 4
    text = (tmp_path / "results" / "night-n1.md").read_text()
    for heading in ("# Night n1", "## What ran", "# one", "# two", "## Throughput", "## KV cache"):
        assert f"\n{heading}" in f"\n{text}"
    assert "SIMULATED" in text
    assert "# Night n1" in ran.output


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
