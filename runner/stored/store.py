"""Results on disk: runs, and boots that are committed whole.

    results/<experiment>/
        runs/<run>.json                     what the run answers, and the file as it was
        cells/run=<run>/cells.parquet
        <table>/run=<run>/<boot>.parquet    boots, facts, loads, requests, gpu, events
        logs/run=<run>/<boot>.log.gz        what the server printed
        .open/<run>/<boot>/                 the desk of a boot that is not committed yet

A boot works on its desk: each finished load is a whole file there. Committing moves the desk's
files to their tables, `boots` last: a boot is stored when its row in `boots` is. A desk whose
runner died is committed by the next one, as interrupted, with the loads it finished.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from runner.secrets import Redactor
from runner.stored import rows
from runner.stored.parts import compress, flush_folder, write_batches, write_table, write_text

FINISHED: Final = frozenset({"done", "failed", "skipped"})
_BATCH_ROWS: Final = 2048


@dataclass(frozen=True, slots=True, order=True)
class BootKey:
    """Which boot: its cell, its number there, and which try."""

    cell_id: str
    boot: int
    attempt: int

    @property
    def part(self) -> str:
        """Return the name of its files, without ending."""
        number = "prime" if self.boot < 0 else f"{self.boot:03d}"
        return f"{number}-{self.cell_id}-a{self.attempt}"

    @property
    def columns(self) -> dict[str, Any]:
        """Return its key columns."""
        return {"cell_id": self.cell_id, "boot": self.boot, "attempt": self.attempt}


class Desk:
    """The working folder of one boot that is not committed yet."""

    def __init__(self, run: Run, key: BootKey) -> None:
        self.run = run
        self.key = key
        self.folder = run.experiment / ".open" / run.run_id / key.part
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "server.log"
        self._loads = len(self.loads())

    def begin(self, row: Mapping[str, Any]) -> None:
        """Note what is known of the boot before anything starts."""
        write_table(self.folder / "begun.parquet", rows.to_arrow("boots", [row]))

    def loads(self) -> list[dict[str, Any]]:
        """Return the rows of the loads that are finished."""
        return [
            pq.read_table(path).to_pylist()[0]
            for path in sorted(self.folder.glob("load-*.parquet"))
        ]

    def add_load(self, load: Mapping[str, Any], requests: Iterable[Mapping[str, Any]]) -> None:
        """Keep a finished load: its requests first, then its own row, which makes it count."""
        number = f"{self._loads:03d}"
        schema = rows.schema("requests")
        write_batches(self.folder / f"requests-{number}.parquet", schema, _batches(requests))
        write_table(self.folder / f"load-{number}.parquet", rows.to_arrow("loads", [load]))
        self._loads += 1

    def commit(
        self,
        boot: Mapping[str, Any],
        tables: Mapping[str, Iterable[Mapping[str, Any]]],
        redactor: Redactor,
    ) -> None:
        """Move everything into the tables, the boot's own row last."""
        for table, content in tables.items():
            write_table(self._part(table), rows.to_arrow(table, content))
        write_table(self._part("loads"), rows.to_arrow("loads", self.loads()))
        for path in sorted(self.folder.glob("requests-*.parquet")):
            self._move_requests(path)
        if self.log.exists():
            name = f"{self.key.part}.log.gz"
            kept = self.run.experiment / "logs" / f"run={self.run.run_id}" / name
            compress(self.log, kept, redactor.line)
        write_table(self._part("boots"), rows.to_arrow("boots", [boot]))
        shutil.rmtree(self.folder)

    def begun(self) -> dict[str, Any]:
        """Return what was noted at the boot's beginning; its keys alone when nothing was."""
        path = self.folder / "begun.parquet"
        if not path.exists():
            return self.key.columns
        row: dict[str, Any] = pq.read_table(path).to_pylist()[0]
        return row

    def _move_requests(self, path: Path) -> None:
        number = path.stem.removeprefix("requests-")
        folder = self.run.experiment / "requests" / f"run={self.run.run_id}"
        folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / f"load-{number}.parquet").exists():
            path.replace(folder / f"{self.key.part}.{number}.parquet")
            flush_folder(folder)

    def _part(self, table: str) -> Path:
        folder = self.run.experiment / table / f"run={self.run.run_id}"
        return folder / f"{self.key.part}.parquet"


@dataclass(frozen=True, slots=True)
class Run:
    """One `exec` of one experiment, continued until all its boots are stored."""

    experiment: Path
    run_id: str

    def put_cells(self, cells: Iterable[Mapping[str, Any]]) -> None:
        """Store the run's cells."""
        path = self.experiment / "cells" / f"run={self.run_id}" / "cells.parquet"
        write_table(path, rows.to_arrow("cells", cells))

    def frozen_kv_tokens(self) -> int | None:
        """Return the KV capacity that its first stage has shown; None before that is complete."""
        found: int | None = self._note().get("frozen_kv_tokens")
        return found

    def freeze_kv_tokens(self, tokens: int) -> None:
        """Keep the KV capacity of the second stage, which nothing changes any more."""
        self._put_note(self._note() | {"frozen_kv_tokens": tokens})

    def note_file(self, text: str) -> None:
        """Keep the file as it is now; how it was before stays beside it, with the boots of then."""
        note = self._note()
        if note["file"] != text:
            before = {"file": note["file"], "boots": len(self.boots())}
            self._put_note(note | {"file": text, "earlier": [*note.get("earlier", ()), before]})

    def _note(self) -> dict[str, Any]:
        path = self.experiment / "runs" / f"{self.run_id}.json"
        note: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return note

    def _put_note(self, note: Mapping[str, Any]) -> None:
        path = self.experiment / "runs" / f"{self.run_id}.json"
        write_text(path, json.dumps(note, indent=1))

    def boots(self) -> list[dict[str, Any]]:
        """Return the committed boots, in the order they ran; unreadable parts are left out."""
        found = []
        for path in sorted((self.experiment / "boots" / f"run={self.run_id}").glob("*.parquet")):
            try:
                found += pq.ParquetFile(path).read().to_pylist()
            except (pa.ArrowException, OSError):
                set_aside(path, self.experiment)
        return sorted(found, key=lambda row: (row["order"] or 0, row["attempt"]))

    def void_loads(self, boots: Iterable[Mapping[str, Any]]) -> int:
        """Return how many committed loads of these boots are void, searches without answer too.

        A probe of a search counts only through it: one that could not be judged was repeated.
        """
        keys = [BootKey(row["cell_id"], row["boot"], row["attempt"]) for row in boots]
        loads = [row for key in keys for row in self._part(key, "loads", ("verdict", "search"))]
        found = [row for key in keys for row in self._part(key, "capacity", ("why",))]
        void = [row["verdict"] for row in loads if row.get("search") is None].count("void")
        return void + [row["why"] for row in found].count("unknown")

    def _part(self, key: BootKey, table: str, columns: Iterable[str]) -> list[dict[str, Any]]:
        """Return columns of what a boot stored in a table; one that its file lacks is not there."""
        path = self.experiment / table / f"run={self.run_id}" / f"{key.part}.parquet"
        return pq.ParquetFile(path).read([*columns]).to_pylist() if path.exists() else []

    def desk(self, cell_id: str, boot: int) -> Desk:
        """Return a desk for the next attempt at a boot."""
        tried = [r["attempt"] for r in self.boots() if (r["cell_id"], r["boot"]) == (cell_id, boot)]
        return Desk(self, BootKey(cell_id, boot, max(tried, default=0) + 1))

    def open_desks(self) -> Iterator[Desk]:
        """Yield the desks that a runner left behind."""
        for folder in sorted((self.experiment / ".open" / self.run_id).glob("*-a*")):
            number, cell_id, attempt = folder.name.rsplit("-", 2)
            boot = -1 if number == "prime" else int(number)
            yield Desk(self, BootKey(cell_id, boot, int(attempt.removeprefix("a"))))

    def _drafts(self) -> Iterator[Path]:
        return self.experiment.glob(f"*/run={self.run_id}/.*.draft")

    def recover(self, redactor: Redactor) -> list[BootKey]:
        """Commit what a dead runner left behind as interrupted; return which boots those were.

        Files that it was about to write are removed; whoever calls holds the lock of the results.
        """
        for draft in chain(self.experiment.glob("runs/.*.draft"), self._drafts()):
            draft.unlink()
        stored = {(row["cell_id"], row["boot"], row["attempt"]) for row in self.boots()}
        found = []
        for desk in self.open_desks():
            if (desk.key.cell_id, desk.key.boot, desk.key.attempt) in stored:
                shutil.rmtree(desk.folder)
                continue
            gone = {"outcome": "interrupted", "cause": "interrupted", "origin": "host"}
            desk.commit(desk.begun() | gone, {}, redactor)
            found.append(desk.key)
        return found


class Store:
    """The results of one experiment."""

    def __init__(self, results: Path, experiment: str) -> None:
        self.folder = results / experiment

    def runs(self) -> list[dict[str, Any]]:
        """Return what is known of each run, oldest first."""
        found = []
        for path in sorted((self.folder / "runs").glob("*.json")):
            try:
                found.append(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                set_aside(path, self.folder)
        return found

    def latest(self, content_id: str, night: str | None = None) -> Run | None:
        """Return the newest run that answers the same content in that night, or outside of any."""
        asked = (content_id, night)
        same = [r for r in self.runs() if (r.get("content_id"), r.get("night")) == asked]
        return Run(self.folder, same[-1]["run"]) if same else None

    def new_run(self, content_id: str, text: str, night: str | None = None) -> Run:
        """Open a run: its id is the time it began, and a trace of what it answers and where.

        Containers bear it: two runs that begin at once in different folders need two ids.
        """
        began, where = datetime.now(UTC), f"{content_id} {self.folder.resolve()}"
        while any((self.folder / "runs").glob(f"{_run_id(began, where)[:_SECOND]}*.json")):
            began += timedelta(seconds=1)  # two runs of one second stay two, and in their order
        run_id = _run_id(began, where)
        path = self.folder / "runs" / f"{run_id}.json"
        note = {"run": run_id, "content_id": content_id, "began": began.isoformat(), "file": text}
        write_text(path, json.dumps(note | {"night": night}, indent=1))
        return Run(self.folder, run_id)


_SECOND: Final = len("2026-12-01T22-00-00")


def _run_id(began: datetime, where: str) -> str:
    trace = hashlib.sha256(where.encode()).hexdigest()
    return f"{began:%Y-%m-%dT%H-%M-%S}-{trace[:6]}"


def set_aside(path: Path, experiment: Path) -> Path:
    """Move a file that cannot be read out of the tables; return where it went."""
    aside = experiment / ".aside" / path.relative_to(experiment)
    aside.parent.mkdir(parents=True, exist_ok=True)
    path.replace(aside)
    return aside


def _batches(requests: Iterable[Mapping[str, Any]]) -> Iterator[pa.Table]:
    batch: list[Mapping[str, Any]] = []
    for row in requests:
        batch.append(row)
        if len(batch) == _BATCH_ROWS:
            yield rows.to_arrow("requests", batch)
            batch = []
    yield rows.to_arrow("requests", batch)
