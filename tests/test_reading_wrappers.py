"""What others wrap around a server's lines changes nothing that is read from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from engines.corpus_names import corpus_facts
from engines.reading import Reader

LOGS: Final = Path(__file__).parent / "logs"
AT: Final = "2026-03-02T11:30:33.123456789Z"

WRAPPERS: Final[dict[str, Callable[[str], str]]] = {
    "docker logs -t": lambda line: f"{AT} {line}",
    "Kubernetes": lambda line: f"{AT} stdout F {line}",
    "Kubernetes, JSON inside": lambda line: f"{AT} stdout F " + json.dumps({"msg": line}),
    "kubectl --prefix": lambda line: f"[pod/vllm-7d/vllm] {line}",
    "Compose": lambda line: f"vllm-server-1  | {line}",
    "Compose in colour": lambda line: f"\x1b[36mvllm-1  |\x1b[0m {line}",
    "Docker's JSON file": lambda line: json.dumps({"log": line + "\n", "stream": "stderr"}),
    "cloud logging": lambda line: json.dumps(
        {"jsonPayload": {"message": line, "levelname": "INFO"}, "severity": "INFO"}
    ),
    "cloud logging, text": lambda line: json.dumps({"textPayload": line, "severity": "INFO"}),
    "Ray": lambda line: f"(ServeReplica:app:LLM pid=123) {line}",
    "Ray over hosts, in colour": lambda line: (
        f"\x1b[36m(LLMActor pid=123, ip=10.0.0.1)\x1b[0m {line}"
    ),
    "journald": lambda line: f"Mar 02 11:30:33 gpu01 vllm[1234]: {line}",
    "journald, ISO times": lambda line: f"2026-03-02T11:30:33+0000 gpu01.lan docker[1234]: {line}",
    "srun --label": lambda line: f"0: {line}",
    "mpirun --tag-output": lambda line: f"[1,0]<stderr>:{line}",
    "torch": lambda line: f"[rank0]: {line}",
    "torchrun --tee": lambda line: f"[default0]:{line}",
    "cat -n": lambda line: f"   12\t{line}",
    "grep -n": lambda line: f"12:{line}" if line.startswith(" ") else f"12: {line}",
    "a file's indentation": lambda line: f"    {line}",
    "a quotation": lambda line: f"> {line}",
    "another system's line ends": lambda line: f"{line}\r",
    "a launcher's name": lambda line: f"[server] {line}",
    "Python's logging": lambda line: f"2026-03-02 11:30:33,123 - my.server - INFO - {line}",
    "loguru": lambda line: f"2026-03-02 11:30:33.123 | INFO     | serve:run:12 - {line}",
    "pytest": lambda line: f"INFO     server:proc.py:12 {line}",
    "CI": lambda line: f"2026-03-02T11:30:33.1234567Z {line}",
    "gh run view --log": lambda line: f"build\tRun the server\t2026-03-02T11:30:33.1Z {line}",
}


def read(lines: list[str]) -> dict[str, Any]:
    reader = Reader()
    reader.feed("".join(f"{line}\n" for line in lines).encode())
    reading = reader.close()
    facts = corpus_facts(reading.engine, reading.facts)
    return {"ends": (reading.engine, reading.outcome, reading.cause), **facts}


@cache
def logs() -> dict[str, tuple[list[str], dict[str, Any]]]:
    """Return the lines of each log, and what is read from them as they are."""
    texts = {path.stem: path.read_text("utf-8", "replace") for path in LOGS.glob("*.log")}
    lines = {stem: text.removesuffix("\n").split("\n") for stem, text in texts.items()}
    return {stem: (found, read(found)) for stem, found in lines.items()}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapped_log_says_what_it_says_without(wrapper: str) -> None:
    wrap = WRAPPERS[wrapper]
    for stem, (lines, bare) in logs().items():
        assert (stem, read([wrap(line) for line in lines])) == (stem, bare)


def test_the_ranks_of_an_engine_inside_ray_are_the_engines_own() -> None:
    line = "(ServeReplica_7 pid=1) (EngineCore_DP{} pid=1{}) INFO 03-02 10:00:00 [k.py:1] GPU KV"
    lines = [line.format(dp, dp) + f" cache size: {tokens}" for dp, tokens in enumerate("56")]
    found = read([f"{line},000 tokens" for line in lines])
    assert found["kv_tokens_per_engine"] == [5000, 6000]
    assert found["kv_tokens"] == 11000


def test_lines_of_another_process_do_not_go_on_with_a_message() -> None:
    head = "(EngineCore pid=1) ERROR 03-02 10:00:00 [core.py:1] ValueError: To serve at least"
    begun = f"{head} one request with the model's max seq len (9000), 3.09 GiB KV cache is needed,"
    rest = (
        "which is larger than the available KV cache memory (0.24 GiB). "
        "Estimated maximum model length is 57."
    )
    same = read([begun, f"(EngineCore pid=1) {rest}"])
    other = read([begun, f"(Worker pid=2) {rest}"])
    assert same["estimated_max_model_len"] == 57
    assert "estimated_max_model_len" not in other


def test_an_exception_of_any_name_is_evidence_after_a_traceback() -> None:
    reader = Reader("vllm")
    reader.feed(
        b"Traceback (most recent call last):\n"
        b'  File "x.py", line 1, in run\n'
        b"torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
    )
    found = reader.close()
    assert (found.outcome, found.cause) == ("failed", "unknown")
    assert "BackendCompilerFailed" in found.evidence[0]
