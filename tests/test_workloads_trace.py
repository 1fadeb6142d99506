"""Logs replayed: every known form, their order, lengths, times and shared prefixes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

import engines
from runner import workloads
from runner.boots.asks import Draw, asks_of
from runner.errors import ExperimentError
from runner.experiment import LoadKeys
from runner.experiment.levels import loads_of
from runner.traces.columns import records_of
from runner.workloads import Prompt, Vocabulary

FOLDER = Path(__file__).parent / "traces"
KIND = workloads.get("trace")


def replayed(file: str | Path, seed: int = 1, **keys: Any) -> list[Prompt]:
    spec = KIND.spec.model_validate({"file": str(FOLDER / file), "times": "own", **keys})
    return list(KIND.prompts(spec, random.Random(seed), Vocabulary()))


def shape(prompts: list[Prompt]) -> list[tuple[int, int, float | None]]:
    return [(len(p.token_ids), p.output_tokens, p.due_s) for p in prompts]


def test_azure_columns_give_lengths_and_times_from_the_first() -> None:
    assert shape(replayed("azure.csv")) == [(120, 30, 0.0), (64, 8, 1.5), (300, 45, 4.25)]


def test_burstgpt_columns_give_seconds_and_leave_failed_requests_out() -> None:
    assert shape(replayed("burstgpt.csv")) == [(40, 12, 0.0), (200, 25, 4.0), (7, 3, 6.0)]


def test_mooncake_hash_ids_become_shared_blocks_and_expected_hits() -> None:
    prompts = replayed("mooncake.jsonl")
    assert shape(prompts) == [(1100, 20, 0.0), (1300, 10, 2.0), (500, 5, 2.5), (1100, 20, 4.0)]
    assert [p.expected_hit_tokens for p in prompts] == [0, 1024, 0, 1100]
    assert prompts[0].token_ids[:1024] == prompts[1].token_ids[:1024]
    assert prompts[0].token_ids[1024:] != prompts[1].token_ids[1024:1100]
    assert prompts[0].token_ids == prompts[3].token_ids


def test_blocks_of_one_load_are_not_those_of_another() -> None:
    one, other = replayed("mooncake.jsonl", seed=1), replayed("mooncake.jsonl", seed=2)
    assert one[0].token_ids[:20] != other[0].token_ids[:20]


def test_a_log_runs_faster_by_its_speed_and_ends_by_itself() -> None:
    keys = LoadKeys.model_validate(
        {"workload": "trace", "file": str(FOLDER / "azure.csv"), "speed": [1.0, 2.0]}
    )
    draw = Draw(seed=1, boot=0, load="x", repeat=0)
    times = {
        load.load: [
            ask.due_s
            for ask in asks_of(load, draw, Vocabulary(), engines.get("vllm"), "m", "window")
        ]
        for load in loads_of(keys)
    }
    assert times == {"trace@x1": [0.0, 1.5, 4.25], "trace@x2": [0.0, 0.75, 2.125]}


def test_where_the_level_decides_the_order_is_kept_and_times_are_dropped() -> None:
    assert [p.due_s for p in replayed("azure.csv", times="level")] == [None] * 3


def test_own_rows_are_sorted_by_time_and_keep_token_ids_and_groups() -> None:
    prompts = replayed("own.jsonl", chars_per_token=4)
    assert shape(prompts) == [(3, 4, 0.0), (3, 6, 1.0), (10, 3, 2.5)]
    assert list(prompts[0].token_ids) == [101, 102, 103]
    assert prompts[0].expected_hit_tokens is None
    assert [p.group for p in prompts] == ["a", "", "b"]


def test_texts_without_token_counts_are_not_guessed() -> None:
    with pytest.raises(ExperimentError, match=r"record 2 of those replayed.*chars_per_token"):
        replayed("own.jsonl")


def test_sharegpt_questions_are_sent_as_chats() -> None:
    prompts = replayed("sharegpt.json", times="level", prompts="text", output_tokens=9)
    assert [p.chat.messages[0]["content"][:4] for p in prompts if p.chat] == ["Name", "What"]
    assert {p.output_tokens for p in prompts} == {9}
    assert {p.expected_hit_tokens for p in prompts} == {None}
    assert all(p.chat and p.chat.exact for p in prompts)


def test_sharegpt_texts_become_lengths_by_the_characters_of_a_token() -> None:
    prompts = replayed("sharegpt.json", times="level", chars_per_token=10)
    assert shape(prompts) == [(4, 3, None), (5, 2, None)]


def test_sharegpt_without_a_length_of_answers_says_what_to_set() -> None:
    with pytest.raises(ExperimentError, match="set output_tokens"):
        replayed("sharegpt.json", times="level", prompts="text")


def test_only_a_text_log_chats() -> None:
    keys = {"file": str(FOLDER / "sharegpt.json"), "times": "level"}
    assert KIND.chats(KIND.spec.model_validate({**keys, "prompts": "text"}))
    assert not KIND.chats(KIND.spec.model_validate(keys))


def test_own_times_are_asked_of_a_log_that_has_them() -> None:
    with pytest.raises(ExperimentError, match="give rate_per_s, not speed"):
        replayed("sharegpt.json", prompts="text", output_tokens=9)


def test_long_requests_are_left_out_and_leave_no_prefix_behind() -> None:
    prompts = replayed("mooncake.jsonl", longest_tokens=1200)
    assert [len(p.token_ids) for p in prompts] == [1100, 500, 1100]
    assert [p.due_s for p in prompts] == [0.0, 2.5, 4.0]


def test_records_at_the_beginning_can_be_skipped() -> None:
    assert shape(replayed("azure.csv", skip=1)) == [(64, 8, 0.0), (300, 45, 2.75)]


def test_a_parquet_log_reads_like_its_csv(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        "Timestamp": [5, 9],
        "Model": ["a", "b"],
        "Request tokens": [40, 200],
        "Response tokens": [12, 25],
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    assert shape(replayed(tmp_path / "log.parquet")) == [(40, 12, 0.0), (200, 25, 4.0)]


def test_a_session_id_is_a_group(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "Timestamp,Session ID,Request tokens,Response tokens\n1,7,3,2\n2,,3,2\n"
    )
    assert [record.group for record in records_of(tmp_path / "log.csv")] == ["session-7", ""]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("log.txt", "a,b\n", "no log format of this ending"),
        ("log.csv", "", "the log is empty"),
        ("log.csv", "when,how_long\n1,2\n", "its columns are when, how_long"),
        ("log.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nnever,1,2\n", "record 1"),
        ("log.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2031-01-01,-4,2\n", "-4 tokens"),
        ("log.jsonl", '{"at_s": 1\n', "log.jsonl:1: it is not JSON"),
        ("log.jsonl", "[1]\n", "one JSON object"),
        ("log.json", '{"a": 1}', "a list of objects"),
        ("log.json", '{"a": 1}\n{"a": 2}', "ends in .jsonl"),
        ("log.parquet", "PAR", "not Parquet"),
        (
            "log.jsonl",
            '{"timestamp": 1, "input_length": 900, "output_length": 2, "hash_ids": [1]}',
            "set block_tokens",
        ),
    ],
)
def test_a_log_that_cannot_be_replayed_says_why(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ExperimentError, match=said):
        replayed(tmp_path / name)


def test_a_format_that_does_not_fit_is_named_with_what_it_needs() -> None:
    with pytest.raises(ExperimentError, match="mooncake needs timestamp, input_length"):
        replayed("azure.csv", format="mooncake")


def test_a_log_that_is_not_there_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValidationError, match="there is no file"):
        replayed("nowhere.csv")


def test_a_changed_log_is_another_question(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    keys: dict[str, Any] = {"file": str(log), "times": "level", "output_tokens": 2}
    found = []
    for line in ('{"input_tokens": 3}', '{"input_tokens": 4}'):
        log.write_text(line)
        found.append(KIND.contents(KIND.spec.model_validate(keys)))
    assert found[0] != found[1]
    other = {"workload": "random", "input_tokens": 3, "output_tokens": 2}
    mix = workloads.get("mix")
    spec = mix.spec.model_validate({"parts": [{"workload": "trace", **keys}, other]})
    assert mix.contents(spec) == found[1]
