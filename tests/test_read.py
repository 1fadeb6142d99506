"""Every mistake in an experiment file is a sentence with its line, and never a traceback."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from runner.cli import main
from runner.errors import ExperimentError
from runner.experiment import Experiment
from runner.experiment.read import overlaid, read

GOOD = """\
question = "What does a chunk cost?"
boots = 3

[common]
model = "Qwen/Qwen3-1.7B"
max_running = 64

[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
memory = { fraction = 0.85 }

[engines.sglang]
image = "lmsysorg/sglang:v0.5.21"

[matrix]
chunk_tokens = [2048, 8192]

[[loads]]
workload = "random"
input_tokens = 512
output_tokens = 128
concurrency = [1, 8]
requests = { per_stream = 8, at_least = 100 }
"""


MISTAKES = tomllib.loads(
    (Path(__file__).parent / "golden" / "mistakes.toml").read_text(encoding="utf-8")
)["mistake"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chunk.toml"


def refused(file: Path, text: str, *, rehearse: bool = False) -> list[str]:
    """Return the complaints about a text, each without the file's folder."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ExperimentError) as caught:
        read(file, rehearse=rehearse)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(str(file), file.name).splitlines()


def accepted(file: Path, text: str) -> Experiment:
    file.write_text(text, encoding="utf-8")
    return read(file)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_a_good_file_is_read_with_its_name_and_path(file: Path) -> None:
    experiment = accepted(file, GOOD)
    assert (experiment.name, experiment.path, experiment.boots) == ("chunk", file, 3)
    assert list(experiment.engines) == ["vllm", "sglang"]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["name"])
def test_a_mistake_is_said_with_its_line_and_what_to_write(
    file: Path, mistake: dict[str, Any]
) -> None:
    assert refused(file, changed(mistake["old"], mistake["new"])) == mistake["said"]


def test_a_file_without_engines_or_loads_says_which_tables_to_write(file: Path) -> None:
    assert refused(file, 'question = "?"\nboots = 1\n') == [
        "chunk.toml: engines: is missing; write a table [engines.NAME]",
        "chunk.toml: loads: is missing; write a table [[loads]]",
    ]


def test_empty_engines_and_loads_say_the_same(file: Path) -> None:
    text = 'question = "?"\nboots = 1\nloads = []\n[engines]\n'
    assert refused(file, text) == [
        "chunk.toml:3: loads: is empty; write a table [[loads]]",
        "chunk.toml:4: engines: is empty; write a table [engines.NAME]",
    ]


def test_several_mistakes_are_listed_together_in_the_order_of_the_file(file: Path) -> None:
    text = changed("boots = 3", "boots = 3\nbots = 2")
    text = text.replace('"random"', '"randon"').replace("[2048, 8192]", "[]")
    assert [line.split(": ")[1] for line in refused(file, text)] == [
        "bots",
        "matrix.chunk_tokens",
        "loads[0].workload",
    ]


def test_mistakes_of_form_and_of_sense_in_one_file_are_listed_together(file: Path) -> None:
    text = changed("boots = 3", "bots = 3").replace("input_tokens", "input_tokns")
    assert [line.split(": ")[1] for line in refused(file, text)] == [
        "boots",
        "bots",
        "loads[0].input_tokens",
        "loads[0].input_tokns",
    ]


def test_a_hundred_mistakes_are_cut_short(file: Path) -> None:
    wrong = "\n".join(f"key_{number} = 1" for number in range(100))
    said = refused(file, f"{wrong}\n{GOOD}")
    assert (len(said), said[-1]) == (41, "... and 60 more")


@pytest.mark.parametrize(
    ("text", "line"),
    [("question = \n", 1), ('a = 1\nb = "open\n', 2), ("a = 1\na = 2\n", 2), ("[x\n", 1)],
)
def test_a_text_that_is_no_toml_is_refused_with_its_line(file: Path, text: str, line: int) -> None:
    (said,) = refused(file, text)
    assert said.startswith(f"chunk.toml:{line}: it is not TOML: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = " + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("a = " + "[" * 60 + "]" * 60, "nested too deep"),
        (".".join("a" * 3000) + " = 1", "nested too deep"),
        ("a = " + "9" * 5000, "not TOML"),
        ("a = 0x" + "f" * 5000, "beyond 64 bits"),
        ("boots = 99999999999999999999", "beyond 64 bits"),
        ('question = "a\\u0000b"', "control character"),
        ('"a\\u001b" = 1', "plain name"),
    ],
)
def test_what_toml_allows_and_no_key_takes_is_refused(file: Path, text: str, why: str) -> None:
    assert why in "\n".join(refused(file, text))


def test_a_missing_file_a_folder_and_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"question = '\xff\xfe'")
    for name, why in [("none.toml", "No such file"), ("bytes.toml", "not UTF-8")]:
        with pytest.raises(ExperimentError, match=why):
            read(tmp_path / name)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(ExperimentError, match="Is a directory"):
        read(tmp_path / "folder.toml")


@pytest.mark.parametrize("name", ["...toml", ".toml", "a b.toml", "-x.toml"])
def test_a_file_whose_name_could_not_name_its_results_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(GOOD, encoding="utf-8")
    with pytest.raises(ExperimentError, match="its name names the results"):
        read(tmp_path / name)


def test_common_variables_are_no_secrets(file: Path) -> None:
    env = 'env = { TOKENIZERS_PARALLELISM = "false", HF_TOKEN_PATH = "/t", MAX_TOKENS = "9" }'
    assert accepted(file, changed("max_running = 64", env)).common.env["MAX_TOKENS"] == "9"


def test_a_byte_order_mark_and_foreign_line_ends_do_no_harm(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read(file).boots == 3


REHEARSED = (
    GOOD
    + """
[rehearse]
boots = 1

[rehearse.engines.vllm]
image = "local/vllm-cpu:0.32.0"
memory = { kv_tokens = 20480 }

[[rehearse.loads]]
workload = "random"
input_tokens = 8
output_tokens = 8
concurrency = 1
requests = 5
"""
)


def test_a_rehearsal_is_laid_over_the_rest(file: Path) -> None:
    file.write_text(REHEARSED, encoding="utf-8")
    whole, rehearsed = read(file), read(file, rehearse=True)
    assert (whole.boots, rehearsed.boots) == (3, 1)
    assert not whole.rehearsal
    assert rehearsed.rehearsal
    assert rehearsed.engines["vllm"].image == "local/vllm-cpu:0.32.0"
    assert rehearsed.engines["sglang"].image == "lmsysorg/sglang:v0.5.21"
    assert [load.requests for load in rehearsed.loads] == [5]


def test_a_file_without_a_rehearsal_cannot_be_rehearsed(file: Path) -> None:
    (said,) = refused(file, GOOD, rehearse=True)
    assert said == "chunk.toml: it has no [rehearse] table; add one, or drop --rehearse"


def test_a_mistake_in_a_rehearsal_is_found_before_it_is_asked_for(file: Path) -> None:
    text = REHEARSED.replace("requests = 5", "requests = 0").replace(
        'image = "local/', 'imag = "local/'
    )
    place, _, said = refused(file, text)[1].partition(": must be ")
    assert refused(file, text)[0] == (
        "chunk.toml:29: rehearse.engines.vllm.imag: unknown key. Did you mean 'image'?"
    )
    assert place == "chunk.toml:37: rehearse.loads[0].requests"
    assert said.endswith("found 0")


def test_tables_are_merged_and_all_else_is_replaced() -> None:
    below = {"a": {"b": 1, "c": [1, 2]}, "memory": {"fraction": 0.8}}
    over = {"a": {"c": [3]}, "memory": {"kv_tokens": 9}}
    assert overlaid(below, over) == {"a": {"b": 1, "c": [3]}, "memory": {"kv_tokens": 9}}


@pytest.mark.parametrize("command", ["plan", "exec"])
def test_a_command_refuses_a_wrong_file_before_anything_is_started(
    file: Path, command: str
) -> None:
    file.write_text(changed("boots = 3", "boots = 3\nbots = 2"), encoding="utf-8")
    results = file.parent / "results"
    options = ["--results", str(results)] if command == "exec" else []
    answer = CliRunner().invoke(main, [command, str(file), *options])
    assert answer.exit_code == 2
    assert "chunk.toml:3: bots: unknown key. Did you mean 'boots'?" in answer.output
    assert not results.exists()


def test_the_plan_command_prints_the_plan_of_a_good_file(file: Path) -> None:
    file.write_text(GOOD, encoding="utf-8")
    answer = CliRunner().invoke(main, ["plan", str(file)])
    assert answer.exit_code == 0
    assert "4 cells, 12 boots, 2 loads in each boot" in answer.output


OWN_TIMES = """
question = "How long is the queue?"
boots = 3
[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
[common]
model = "Qwen/Qwen3-1.7B"
[[loads]]
workload = "burst"
every_s = 5
input_tokens = 8
output_tokens = 8
requests = 64
{level}
"""


@pytest.mark.parametrize(
    ("level", "said"),
    [
        ("rate_per_s = 2\nsize = 4", "write burst = [16] or speed = 1.0 as its level"),
        ("burst = 8\nsize = 4", "stands beside burst, which says how many; leave one out"),
        ('burst = 8\narrivals = "gamma"', "these requests have times of their own"),
    ],
)
def test_whose_times_a_load_has_is_said_once(tmp_path: Path, level: str, said: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(OWN_TIMES.format(level=level))
    with pytest.raises(ExperimentError, match=re.escape(said)):
        read(path)
    path.write_text(OWN_TIMES.format(level="burst = [8, 16]"))
    assert read(path).loads[0].burst == (8, 16)
