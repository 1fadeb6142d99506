"""Answers that a workload keeps: on their way through the client, stored, and held together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from runner import tables
from runner.cli import main
from runner.load.answer import Answer
from runner.load.said import LIMIT_BYTES
from runner.stored.frames import Results, results


@pytest.fixture(autouse=True)
def _without_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.world.floor", lambda **client: None)


def stream(*choices: dict[str, object]) -> bytes:
    """Return an answer whose events hold these choices, with usage that grows by one."""
    events = [
        {"choices": [choice], "usage": {"completion_tokens": number, "prompt_tokens": 3}}
        for number, choice in enumerate(choices, 1)
    ]
    said = [json.dumps(event).encode() for event in events] + [b"[DONE]"]
    framed = b"".join(b"%x\r\ndata: %b\n\n\r\n" % (len(data) + 8, data) for data in said)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


def kept(data: bytes, *cuts: int) -> Answer:
    answer = Answer(keep=True)
    ends = [*sorted(cuts), len(data)]
    answer.read(data, ends, list(range(len(ends))))
    return answer


def word(text: str, *ids: int, last: bool = False) -> dict[str, object]:
    return {"text": text, "token_ids": list(ids), "finish_reason": "length" if last else None}


WORDS = stream(word("a", 7), word(" b", 8), word("", 9), word("ü", 10, last=True))


@given(cuts=st.sets(st.integers(1, len(WORDS) - 1), max_size=30))
def test_a_kept_answer_is_whole_however_its_bytes_come(cuts: set[int]) -> None:
    answer = kept(WORDS, *cuts)
    assert answer.said is not None
    assert (answer.said.text, answer.said.ids) == ("a bü", (7, 8, 9, 10))
    assert answer.chunk_tokens.tolist() == [1, 1, 1, 1]
    assert answer.verdict("complete", 4) == ("ok", "")


def test_an_answer_that_nobody_keeps_is_only_counted() -> None:
    answer = Answer()
    answer.read(WORDS, [len(WORDS)], [0])
    assert answer.said is None
    assert answer.chunk_tokens.tolist() == [1, 1, 1, 1]


def test_a_chat_s_answer_is_its_content_and_has_no_token_ids() -> None:
    said = [("role", "assistant"), ("content", "{"), ("reasoning", "hm"), ("content", "}")]
    choices: list[dict[str, object]] = [
        {"delta": {name: text}, "finish_reason": "stop"} for name, text in said
    ]
    answer = kept(stream(*choices))
    assert answer.said is not None
    assert (answer.said.text, answer.said.ids) == ("{}", None)


def test_half_an_answer_is_never_kept() -> None:
    long = kept(stream(*(word("x" * 1000, n) for n in range(LIMIT_BYTES // 1000 + 2))))
    assert long.said is not None
    assert (long.said.text, long.said.ids) == (None, None)


def test_half_a_surrogate_pair_does_not_stop_the_client() -> None:
    answer = kept(stream(word("\ud83d", 1), word("\ude00!", 2), word("\ud83d", 3, last=True)))
    assert answer.said is not None
    assert answer.said.text == "😀!�"


EXPERIMENT = """
question = "Do they say the same?"
boots = 2
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8
memory = {{ kv_tokens = 8192 }}
[engines.vllm]
simulate = {{ startup_s = 0.1, speed = 20 }}
[engines.sglang]
simulate = {{ startup_s = 0.1, speed = 20{faults} }}
[[loads]]
workload = "random"
input_tokens = 32
output_tokens = 4
concurrency = 1
requests = 4
[[loads]]
workload = "accuracy"
prompts = 4
input_tokens = 32
output_tokens = 6
concurrency = 2
requests = 4
"""


def ran(folder: Path, faults: str = "") -> tuple[Results, str]:
    path = folder / "answers.toml"
    path.write_text(EXPERIMENT.format(faults=faults))
    done = CliRunner().invoke(main, ["exec", str(path), "--results", str(folder / "results")])
    return results(folder / "results"), done.output


def test_servers_that_say_the_same_agree_in_every_token(tmp_path: Path) -> None:
    found, output = ran(tmp_path)
    kept = found.requests[found.requests.load.str.startswith("accuracy") & ~found.requests.warmup]
    assert {len(ids) for ids in kept.answer_ids} == {6}
    assert all(text.startswith(" ") for text in kept.answer)
    others = found.requests[~found.requests.index.isin(kept.index)]
    assert others.answer.isna().all()
    assert others.answer_ids.isna().all()
    shown = tables.get("accuracy").build(found)
    assert shown is not None
    assert set(shown.frame["equal tokens %"].explode()) == {100.0}
    assert list(shown.frame.against) == ["its first boot", "its first boot", "vllm"]
    assert "other_answers" not in output


def test_a_fast_wrong_server_is_a_doubt_wherever_it_is_compared(tmp_path: Path) -> None:
    found, output = ran(tmp_path, ", wrong_answers = true")
    shown = tables.get("accuracy").build(found)
    assert shown is not None
    assert list(shown.frame["equal tokens %"]) == [(100.0,), (100.0,), (0.0, 0.0)]
    assert "other_answers" in output
    comparison = tables.get("comparison").build(found)
    assert comparison is not None
    assert all("other_answers" in doubts for doubts in comparison.frame.doubts)


def test_the_speed_of_an_accuracy_load_stands_in_no_table_and_in_no_comparison(
    tmp_path: Path,
) -> None:
    found, output = ran(tmp_path)
    assert len(found.loads) == 8
    for name in ("throughput", "ttft", "comparison"):
        shown = tables.get(name).build(found)
        assert shown is not None
        assert set(shown.frame.load) == {"random@c1"}
    assert "Holm over m = 1;" in output
