"""What the commands do is importable from `runner`, lazily and more than once."""

from __future__ import annotations

import subprocess
import sys

import runner


def test_a_door_is_the_same_function_each_time_it_is_asked_for() -> None:
    for name in runner.__all__:
        assert callable(getattr(runner, name))
        assert getattr(runner, name) is getattr(runner, name)


def test_importing_the_package_imports_no_pandas() -> None:
    code = "import sys, runner; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
