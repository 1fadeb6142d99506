"""The store: boots are committed whole, a dead runner's desk becomes an interrupted boot."""

from __future__ import annotations

import errno
import gzip
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from runner.secrets import Redactor
from runner.stored import parts, rows
from runner.stored.frames import latest_runs, results
from runner.stored.parts import DiskFull
from runner.stored.store import Desk, Run, Store

NO_SECRETS = Redactor(())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Store(tmp_path, "quick").new_run("c0ffee", "question = 'q'")


def begun(desk: Desk, order: int = 0) -> dict[str, Any]:
    return {**desk.key.columns, "block": desk.key.boot, "order": order}


def one_load(desk: Desk, load: str) -> None:
    keys = {**desk.key.columns, "load": load, "repeat": 0}
    desk.add_load(keys, [{**keys, "request": number, "outcome": "ok"} for number in range(3)])


def test_a_committed_boot_is_read_back_in_one_line_of_pandas(run: Run, tmp_path: Path) -> None:
    desk = run.desk("cell", 0)
    desk.begin(begun(desk))
    one_load(desk, "random@c1")
    desk.log.write_text("hello\n")
    desk.commit({**begun(desk), "outcome": "done"}, {"facts": []}, NO_SECRETS)

    requests = pd.read_parquet(tmp_path / "quick" / "requests")
    assert list(requests.request) == [0, 1, 2]
    assert list(requests.run.astype(str)) == [run.run_id] * 3
    assert not desk.folder.exists()
    log = tmp_path / "quick" / "logs" / f"run={run.run_id}" / "000-cell-a1.log.gz"
    assert gzip.decompress(log.read_bytes()) == b"hello\n"


def test_a_desk_left_behind_is_committed_as_interrupted_with_its_finished_loads(run: Run) -> None:
    desk = run.desk("cell", 0)
    desk.begin(begun(desk))
    one_load(desk, "random@c1")

    assert [key.boot for key in run.recover(NO_SECRETS)] == [0]

    [boot] = run.boots()
    assert (boot["outcome"], boot["cause"], boot["attempt"]) == ("interrupted", "interrupted", 1)
    assert list(results(run.experiment).loads.load) == ["random@c1"]
    assert len(results(run.experiment).requests) == 3
    assert run.desk("cell", 0).key.attempt == 2


@pytest.mark.parametrize("step", range(8))
def test_a_death_at_any_step_of_a_commit_loses_nothing_and_repeats_nothing(
    run: Run, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = run.desk("cell", 0)
    desk.begin(begun(desk))
    one_load(desk, "random@c1")
    one_load(desk, "random@c8")
    desk.log.write_text("hello\n")
    calls = 0

    def dying(real: Callable[..., None]) -> Callable[..., None]:
        def write(*args: Any) -> None:
            nonlocal calls
            if calls == step:
                raise KeyboardInterrupt
            calls += 1
            real(*args)

        return write

    with monkeypatch.context() as patch:
        for name in ("write_table", "compress"):
            patch.setattr(f"runner.stored.store.{name}", dying(getattr(parts, name)))
        with suppress(KeyboardInterrupt):
            desk.commit({**begun(desk), "outcome": "done"}, {"facts": []}, NO_SECRETS)
    run.recover(NO_SECRETS)

    read = results(run.experiment)
    assert len(read.boots) == 1
    assert list(read.loads.load) == ["random@c1", "random@c8"]
    assert len(read.requests) == 6
    assert not list(run.open_desks())


def test_what_a_dead_runner_was_about_to_write_is_removed(run: Run) -> None:
    desk = run.desk("cell", 0)
    desk.commit({**begun(desk), "outcome": "done"}, {}, NO_SECRETS)
    drafts = [
        run.experiment / "boots" / f"run={run.run_id}" / ".001-cell-a1.parquet.draft",
        run.experiment / "runs" / ".another.json.draft",
    ]
    for draft in drafts:
        draft.write_bytes(b"PAR1 half")
    run.recover(NO_SECRETS)
    assert not [draft for draft in drafts if draft.exists()]
    assert len(run.boots()) == 1


def test_a_load_without_its_own_row_does_not_count(run: Run) -> None:
    desk = run.desk("cell", 0)
    desk.begin(begun(desk))
    one_load(desk, "random@c1")
    (desk.folder / "load-000.parquet").unlink()

    run.recover(NO_SECRETS)

    read = results(run.experiment)
    assert read.loads.empty
    assert read.requests.empty


def test_a_file_that_cannot_be_read_is_set_aside_and_never_fatal(run: Run) -> None:
    desk = run.desk("cell", 0)
    desk.commit({**begun(desk), "outcome": "done"}, {}, NO_SECRETS)
    folder = run.experiment / "boots" / f"run={run.run_id}"
    (folder / "001-other-a1.parquet").write_bytes(b"PAR1 half a file")

    read = results(run.experiment)
    assert len(read.boots) == 1
    assert [path.name for path in read.unreadable] == ["001-other-a1.parquet"]

    assert len(run.boots()) == 1
    assert (run.experiment / ".aside" / "boots" / f"run={run.run_id}").is_dir()


def test_a_full_disk_is_an_error_of_its_own_and_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("runner.stored.parts.pq.write_table", full)
    with pytest.raises(DiskFull, match="the disk is full"):
        parts.write_table(tmp_path / "boots.parquet", rows.to_arrow("boots", []))
    assert list(tmp_path.iterdir()) == []


def test_secrets_never_reach_a_kept_log(run: Run, tmp_path: Path) -> None:
    redactor = Redactor.of(["HF_TOKEN"], {"HF_TOKEN": "hf_canary_123"})
    desk = run.desk("cell", 0)
    desk.log.write_text("token is hf_canary_123, again hf_canary_123\n")
    desk.commit({**begun(desk), "outcome": "done"}, {}, redactor)

    [log] = (tmp_path / "quick" / "logs").rglob("*.log.gz")
    assert gzip.decompress(log.read_bytes()) == b"token is <HF_TOKEN>, again <HF_TOKEN>\n"


def test_the_newest_run_of_the_same_content_is_continued(tmp_path: Path) -> None:
    store = Store(tmp_path, "quick")
    store.new_run("other", "")
    same = store.new_run("c0ffee", "")
    assert store.latest("c0ffee") == same
    assert store.latest("unheard") is None
    assert latest_runs(tmp_path / "quick") == [max(run["run"] for run in store.runs())]


def test_every_column_has_a_meaning_and_a_unit_where_its_name_says_so() -> None:
    for table, columns in rows.TABLES.items():
        for column in columns:
            assert column.meaning, f"{table}.{column.name}"
            if column.name.endswith("_s") and not column.name.endswith("_per_s"):
                assert column.unit == "s", f"{table}.{column.name}"
            if column.name.endswith("_bytes"):
                assert column.unit == "bytes", f"{table}.{column.name}"


def test_a_row_with_an_unknown_key_is_refused() -> None:
    with pytest.raises(KeyError, match="boots has no column kv_token"):
        rows.to_arrow("boots", [{"kv_token": 1}])
