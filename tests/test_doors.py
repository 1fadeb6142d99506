"""What the commands do is importable from `runner`, lazily and more than once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd

import runner
from runner.stored import rows
from tests.stored import the_example

ROOT = Path(__file__).parents[1]


def the_readme_example(folder: Path) -> None:
    """Store the restarts of the article, under a name that the README's line asks for."""
    the_example(folder, "quickstart")


def test_a_door_is_the_same_function_each_time_it_is_asked_for() -> None:
    for name in runner.__all__:
        assert callable(getattr(runner, name))
        assert getattr(runner, name) is getattr(runner, name)


def test_importing_the_package_imports_no_pandas() -> None:
    code = "import sys, runner; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_readmes_line_of_duckdb_reads_the_stored_files(tmp_path: Path) -> None:
    the_readme_example(tmp_path / "results")
    [line] = re.findall(r"^select .*DuckDB$", (ROOT / "README.md").read_text(), re.MULTILINE)
    found = duckdb.sql(line.replace("'results/", f"'{tmp_path}/results/").partition("--")[0])
    assert found is not None
    assert len(found.fetchall()) == 6


def test_results_are_frames_whose_columns_are_documented(tmp_path: Path) -> None:
    the_readme_example(tmp_path / "results")
    found = runner.results(tmp_path / "results" / "quickstart")
    for name, columns in rows.TABLES.items():
        frame = found.table(name)
        assert list(frame.columns)[:2] == ["experiment", "run"]
        assert set(frame.columns) - {"experiment", "run"} == {column.name for column in columns}
        assert all(column.meaning for column in columns)
    assert len(pd.read_parquet(tmp_path / "results" / "quickstart" / "loads")) == 6
