"""What servers die of, in their own words, and what only looks like it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines import Fact
from engines.causes import CATALOGUE, explained
from engines.deaths import DEATHS
from engines.lexicon import lexicons
from engines.reading import Reader, Reading

ENDS = json.loads((Path(__file__).parent / "logs" / "lines.json").read_text())["ends"]


def read(text: str, engine: str | None = None) -> Reading:
    reader = Reader(engine)
    reader.feed(text.encode() + b"\n")
    return reader.close()


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end["text"][:60])
def test_a_message_is_the_cause_it_is_or_none(end: dict[str, Any]) -> None:
    found = read(end["text"])
    assert (found.cause, found.outcome) == (end["cause"], end["outcome"])


def test_every_cause_that_a_grammar_names_is_in_the_catalogue() -> None:
    deaths = [*DEATHS, *(death for each in lexicons().values() for death in each.grammar.deaths)]
    assert {death.cause for death in deaths} - {"oom"} <= set(CATALOGUE)


def test_the_first_cause_counts_and_not_the_tails_behind_it() -> None:
    found = read(
        "(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:1] EngineCore failed to start.\n"
        "(EngineCore pid=2) ERROR 01-01 00:00:00 [core.py:1] ValueError: No available memory for "
        "the cache blocks. Try increasing `gpu_memory_utilization`.\n"
        "RuntimeError: Engine core initialization failed. See root cause above."
    )
    assert found.cause == "kv_no_memory"
    assert "No available memory" in found.evidence[0]


def test_an_error_nobody_knows_is_unknown_with_its_own_words() -> None:
    found = read(
        "[2026-01-01 00:00:00] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "x.py", line 1, in run\n'
        "ZeroDivisionError: division by zero"
    )
    assert found.cause == "unknown"
    assert any("division by zero" in line for line in found.evidence)


@pytest.mark.parametrize("graph", ["cuda", "prefill CUDA", "frozen-KV MTP cuda", "CPU"])
def test_each_kind_of_graph_that_cannot_be_captured_is_told(graph: str) -> None:
    memory = read(
        f"Exception: Capture {graph} graph failed: CUDA out of memory. Tried to", "sglang"
    )
    assert memory.cause == "oom_graph_capture"
    other = read(f"Exception: Capture {graph} graph failed: an illegal instruction", "sglang")
    assert other.cause == "graph_capture_failed"


def test_heads_that_the_gpus_cannot_share_are_settings_that_contradict() -> None:
    found = read(
        "ValueError: Total number of attention heads (28) must be divisible by tensor parallel "
        "size (8)."
    )
    assert found.cause == "bad_config"


def test_a_request_that_the_host_has_no_room_for_is_no_death() -> None:
    at = "[2026-01-01 00:00:00]"
    assert read(f"{at} Not enough host memory for request 7f", "sglang").outcome == "partial"
    died = read("ValueError: Not enough host memory for V4 paged pool x. Requesting", "sglang")
    assert died.cause == "hicache_host_memory"


def test_a_quoted_source_line_is_no_cause() -> None:
    found = read('  raise ValueError("No available memory for the cache blocks. "', "vllm")
    assert found.outcome == "partial"


def test_a_planned_stop_is_no_crash() -> None:
    found = read(
        "INFO:     Application startup complete.\n"
        "(EngineCore pid=2) INFO 01-01 00:00:00 [core.py:1] [shutdown] EngineCore: trigger "
        "received signal=SIGTERM\n"
        "(APIServer pid=1) ERROR 01-01 00:00:00 [a.py:1] vllm.v1.EngineDeadError: EngineCore "
        "encountered an issue."
    )
    assert (found.outcome, found.cause) == ("ready", None)


def test_an_engine_that_dies_while_serving_failed_in_the_load_phase() -> None:
    found = read(
        "[2026-01-01 00:00:00] The server is fired up and ready to roll!\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB"
    )
    assert (found.outcome, found.cause, found.phase) == ("failed", "oom_serving", "load")


def test_a_bad_request_to_a_ready_server_is_no_death() -> None:
    found = read(
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        "Traceback (most recent call last):\n"
        "ValueError: Unknown quantization method: of a request",
        "vllm",
    )
    assert (found.outcome, found.cause) == ("ready", None)


def test_what_a_request_quotes_is_never_read() -> None:
    found = read(
        "INFO 01-01 00:00:00 [logger.py:1] Received request cmpl-1: prompt: 'ValueError: No "
        "available memory for the cache blocks. GPU KV cache size: 12 tokens', params: x",
        "vllm",
    )
    assert (found.outcome, found.facts) == ("partial", ())


def test_out_of_memory_while_capturing_graphs_is_told_from_loading() -> None:
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 48.00 MiB"
    capturing = "[2026-01-01 00:00:00 TP0] Capture cuda graph begin. This can take minutes."
    assert read(memory).cause == "oom_load"
    assert read(f"{capturing}\n{memory}").cause == "oom_graph_capture"


def test_the_two_memory_failures_of_sglang_get_opposite_advice() -> None:
    assert "RAISE memory.fraction" in CATALOGUE["kv_no_memory"].hint
    assert "LOWER memory.fraction" in CATALOGUE["oom_graph_capture"].hint


def test_the_hidden_reserve_of_hicache_is_explained_with_its_arithmetic() -> None:
    found = read(
        "ValueError: Not enough host memory available. Requesting 40.00 GB but only have "
        "44.87 GB free. Please reduce the size of the hierarchical cache."
    )
    said = explained(str(found.cause), found.facts)
    assert "10.74 GB" in said
    assert "34.13 GB are left, 5.87 GB too few" in said


def test_a_reserve_already_taken_off_is_not_taken_off_again() -> None:
    facts = [
        Fact(name="hicache_requested_bytes", value=40 * 10**9, source="log"),
        Fact(name="host_free_bytes", value=30 * 10**9, source="log"),
    ]
    assert "10.00 GB too much" in explained("hicache_host_memory", facts)
