"""The simulated engine as a process: what its clients, its log's readers and its keeper see."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engines.reading import Reader, Reading
from engines.sim.predict import Boot

FLAGS = {
    "vllm": "--model tiny --max-model-len 4096 --max-num-seqs 64 --enable-prompt-tokens-details",
    "sglang": "--model-path tiny --context-length 4096 --max-running-requests 64 "
    "--enable-cache-report --enable-metrics",
}
QUICK = {"gpu": "laptop-8gb", "boot": 1, "startup_s": 0.0, "kv_tokens": 20_000, "speed": 20}
PROMPT = list(range(100, 200))
both = pytest.mark.parametrize("engine", ["vllm", "sglang"])


class Started:
    """A simulated engine under way."""

    def __init__(self, engine: str, simulate: dict[str, Any], flags: str, log: Path) -> None:
        self.port = free_port()
        self._log = log
        argv = [sys.executable, "-m", "engines.sim", engine]
        argv += ["--simulate", json.dumps(QUICK | simulate), *FLAGS[engine].split()]
        argv += ["--host", "127.0.0.1", "--port", str(self.port), *flags.split()]
        env = os.environ | {"VLLM_SERVER_DEV_MODE": "1", "PLAIN_NAME": "visible"}
        with log.open("wb") as out:
            self.process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env=env)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def reading(self) -> Reading:
        reader = Reader()
        reader.feed(self._log.read_bytes())
        return reader.close()

    def facts(self) -> dict[str, object]:
        return {fact.name: fact.value for fact in reversed(self.reading.facts)}

    def wait(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.log:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def ready(self) -> Started:
        deadline = time.monotonic() + 30
        while True:
            try:
                if self.http.get("/health").status_code == 200:
                    return self
            except httpx.TransportError:
                assert self.process.poll() is None, self.log
                assert time.monotonic() < deadline, self.log
                time.sleep(0.02)

    def complete(self, **asked: Any) -> httpx.Response:
        body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 5, "ignore_eos": True} | asked
        return self.http.post("/v1/completions", json=body)

    def events(self, path: str = "/v1/completions", **asked: Any) -> list[Any]:
        body = {"model": "tiny", "max_tokens": 5, "ignore_eos": True, "stream": True} | asked
        body |= {} if "messages" in body or "prompt" in body else {"prompt": PROMPT}
        lines = self.http.post(path, json=body).text.split("\n\n")
        datas = [line.removeprefix("data: ") for line in lines if line]
        assert datas[-1] == "[DONE]"
        return [json.loads(data) for data in datas[:-1]]

    def stop(self) -> int:
        self.http.close()
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout=20)


Start = Callable[..., Started]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start simulated engines; end them all."""
    running: list[Started] = []

    def begin(engine: str, flags: str = "", **simulate: Any) -> Started:
        server = Started(engine, simulate, flags, tmp_path / f"{len(running)}.log")
        running.append(server)
        return server

    yield begin
    for server in running:
        server.http.close()
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@both
def test_a_stream_gives_each_token_once_and_states_its_usage(engine: str, start: Start) -> None:
    server = start(engine).ready()
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, last = server.events(stream_options=options)
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 3, 4, 5]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 4 + ["length"]
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens"] == 100
    assert last["usage"]["completion_tokens"] == 5
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}


@both
def test_a_whole_answer_says_the_same_as_a_stream(engine: str, start: Start) -> None:
    server = start(engine).ready()
    streamed = "".join(chunk["choices"][0]["text"] for chunk in server.events())
    whole = server.complete().json()
    assert whole["choices"][0]["text"] == streamed
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] in (96, 99)


@both
def test_token_ids_come_when_asked_and_continue_the_prompt_in_the_cache(
    engine: str, start: Start
) -> None:
    server = start(engine).ready()
    first = server.complete(return_token_ids=True, max_tokens=40).json()
    longer = PROMPT + first["choices"][0]["token_ids"] + [7] * 30
    usage = server.complete(prompt=longer).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] in (128, 139)


@both
def test_a_chat_begins_with_the_role_and_then_speaks(engine: str, start: Start) -> None:
    server = start(engine).ready()
    messages = [{"role": "user", "content": "How large is the cache?"}]
    role, *rest = server.events("/v1/chat/completions", messages=messages)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [len(chunk["choices"][0]["delta"]["content"]) for chunk in rest] == [4] * 5


@both
def test_every_answer_and_page_is_marked_simulated(engine: str, start: Start) -> None:
    server = start(engine).ready()
    for path in ("/health", "/v1/models", "/metrics", "/server_info?config_format=json", "/nope"):
        assert server.http.get(path).headers["x-simulated"] == "true"
    assert server.complete().headers["x-simulated"] == "true"
    assert server.http.get("/server_info?config_format=json").json()["simulated"] is True
    assert server.log.startswith("SIMULATED ENGINE")


@both
def test_the_log_is_read_as_a_real_one_and_agrees_with_the_pages(engine: str, start: Start) -> None:
    server = start(engine, "--max-num-batched-tokens 512" if engine == "vllm" else "").ready()
    facts = server.facts()
    assert facts["kv_tokens"] == 20_000
    assert facts["max_running"] == 64
    assert facts["context_tokens"] == 4096
    assert facts["chunk_tokens"] == (512 if engine == "vllm" else 2048)
    assert server.http.get("/v1/models").json()["data"][0]["max_model_len"] == 4096
    name = 'kv_cache_size_tokens="20000"' if engine == "vllm" else "max_total_num_tokens"
    assert name in server.http.get("/metrics").text


@both
def test_counters_and_flush_follow_the_prefix_cache(engine: str, start: Start) -> None:
    server = start(engine).ready()
    server.complete()
    server.complete()
    hits = {"vllm": "vllm:prefix_cache_hits_total", "sglang": "sglang:cached_tokens_total"}[engine]
    line = next(x for x in server.http.get("/metrics").text.splitlines() if x.startswith(hits))
    assert float(line.split()[-1]) in (96.0, 99.0)
    path = {"vllm": "/reset_prefix_cache", "sglang": "/flush_cache"}[engine]
    assert server.http.post(path).status_code == 200
    usage = server.complete().json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0


@both
def test_what_does_not_fit_or_is_no_request_is_refused_with_400(engine: str, start: Start) -> None:
    server = start(engine).ready()
    assert server.complete(max_tokens=4096).status_code == 400
    assert server.complete(prompt={"not": "a prompt"}).status_code == 400
    assert server.complete(model="another").status_code == 404
    assert server.http.post("/v1/completions", content=b"{").status_code == 400
    assert server.complete().status_code == 200


@both
def test_bytes_that_are_no_http_get_a_400_and_the_next_client_is_served(
    engine: str, start: Start
) -> None:
    server = start(engine).ready()
    for sent in (b"nonsense\r\n\r\n", b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(sent)
            assert sock.recv(1000).startswith(b"HTTP/1.1 400")
    assert server.complete().status_code == 200


def test_the_server_needs_nothing_but_the_standard_library() -> None:
    root = str(Path(__file__).parent.parent)
    program = f"import sys; sys.path.insert(0, {root!r}); import engines.sim.__main__"
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)


@both
def test_a_stop_that_was_asked_for_is_clean(engine: str, start: Start) -> None:
    server = start(engine).ready()
    assert server.stop() == 0
    assert server.reading.outcome == "ready"
    assert server.facts()["stopped"] == "clean"


@both
def test_a_client_that_leaves_gives_its_memory_back(engine: str, start: Start) -> None:
    server = start(engine, speed=1).ready()
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 3000, "ignore_eos": True}
    with server.http.stream("POST", "/v1/completions", json=body | {"stream": True}) as answer:
        next(answer.iter_bytes())
    name = {"vllm": "vllm:num_requests_running", "sglang": "sglang:num_running_reqs"}[engine]
    deadline = time.monotonic() + 20
    while True:
        page = server.http.get("/metrics").text.splitlines()
        line = next(x for x in page if x.startswith(f"{name}{{"))
        if float(line.split()[-1]) == 0:
            break
        assert time.monotonic() < deadline, "the request runs on for nobody"
        time.sleep(0.05)


@both
@pytest.mark.parametrize(
    ("phase", "cause"),
    [
        ("start", "driver_mismatch"),
        ("weights", "gated_model"),
        ("profile", "kv_no_memory"),
        ("serve", "port_in_use"),
    ],
)
def test_a_crash_on_order_is_told_in_words_that_readers_know(
    engine: str, phase: str, cause: str, start: Start
) -> None:
    server = start(engine, crash_at=phase)
    assert server.process.wait(timeout=30) == 1
    assert server.reading.outcome == "failed"
    assert server.reading.cause == cause


@pytest.mark.parametrize(
    ("engine", "phase", "cause"),
    [
        ("vllm", "compile", "no_compiler"),
        ("vllm", "graphs", "oom_load"),
        ("sglang", "compile", "oom_load"),
        ("sglang", "graphs", "oom_graph_capture"),
    ],
)
def test_a_start_that_ends_while_it_compiles_is_told_too(
    engine: str, phase: str, cause: str
) -> None:
    flag = {"vllm": "--model", "sglang": "--model-path"}[engine]
    boot = Boot([engine, flag, "tiny", "--simulate", json.dumps({"crash_at": phase})])
    reader = Reader(engine)
    reader.feed("\n".join([*boot.log, ""]).encode())
    assert reader.close().cause == cause


@both
@pytest.mark.parametrize(
    ("fraction", "causes"),
    [("0.3", {"kv_no_memory"}), ("0.999", {"gpu_memory_busy", "oom_graph_capture"})],
)
def test_a_fraction_that_leaves_no_memory_ends_the_start(
    engine: str, fraction: str, causes: set[str], start: Start
) -> None:
    flag = {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"}[engine]
    model = {"vllm": "--model", "sglang": "--model-path"}[engine]
    flags = f"{model} Qwen/Qwen3-1.7B {flag} {fraction}"
    server = start(engine, flags, kv_tokens=[])
    assert server.process.wait(timeout=30) == 1
    assert server.reading.cause in causes


@both
def test_an_unknown_flag_ends_with_code_2(engine: str, start: Start) -> None:
    server = start(engine, "--max-batched-tokenz 5")
    assert server.process.wait(timeout=30) == 2
    assert "unrecognized arguments: --max-batched-tokenz 5" in server.log
    assert server.reading.cause == "bad_flag"


def test_an_engine_out_of_memory_under_load_answers_in_band_and_ends(start: Start) -> None:
    server = start("vllm", oom_under_load=1).ready()
    assert "error" in server.events(max_tokens=50)[-1]
    assert server.process.wait(timeout=30) == 1
    assert server.reading.cause == "oom_serving"


def test_sglang_out_of_memory_kills_itself_and_its_connections(start: Start) -> None:
    server = start("sglang", oom_under_load=1).ready()
    with pytest.raises(httpx.TransportError):
        server.complete(max_tokens=50)
    assert server.process.wait(timeout=30) == -signal.SIGKILL
    assert server.reading.outcome == "failed"


@both
def test_faults_that_only_lie_do_as_they_are_told(engine: str, start: Start) -> None:
    server = start(
        engine,
        lost_prefix_cache=True,
        stuck_flush=True,
        wrong_model="another",
        echo_environment=True,
    ).ready()
    assert server.http.get("/v1/models").json()["data"][0]["id"] == "another"
    for _ in range(2):
        usage = server.complete(model="another").json()["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    path = {"vllm": "/reset_prefix_cache", "sglang": "/flush_cache"}[engine]
    flushed = server.http.post(path)
    assert flushed.status_code == 400 or flushed.json() == {"success": False}
    assert "PLAIN_NAME=visible" in server.log


@both
def test_zero_tokens_are_an_answer_without_tokens(engine: str, start: Start) -> None:
    server = start(engine, zero_tokens=True).ready()
    (last,) = server.events(stream_options={"include_usage": True})
    assert last["usage"]["completion_tokens"] == 0


@both
def test_it_dies_without_a_word_after_so_many_requests(engine: str, start: Start) -> None:
    server = start(engine, die_after_requests=2).ready()
    assert server.complete().status_code == 200
    with contextlib.suppress(httpx.TransportError):  # its last answer may still come through
        server.complete()
    assert server.process.wait(timeout=30) == -signal.SIGKILL


@both
def test_a_hang_in_the_load_keeps_the_server_healthy_and_silent(engine: str, start: Start) -> None:
    server = start(engine, hang_at="load").ready()
    with pytest.raises(httpx.ReadTimeout):
        server.http.post(
            "/v1/completions",
            json={"model": "tiny", "prompt": PROMPT, "stream": True},
            timeout=0.5,
        )
    assert server.http.get("/health").status_code == 200


def test_an_orphan_child_is_named_in_the_log(start: Start) -> None:
    server = start("vllm", orphan_child=True).ready()
    line = next(x for x in server.log.splitlines() if x.startswith("started a child"))
    child = int(line.partition("pid=")[2].rstrip(")"))
    server.stop()
    os.kill(child, 0)  # it outlives its parent
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("engine", "version"),
    [("vllm", "0.8.5"), ("vllm", "0.11.0"), ("vllm", "0.28.0"), ("sglang", "0.5.3")],
)
def test_old_releases_are_spoken_as_they_spoke(engine: str, version: str, start: Start) -> None:
    server = start(engine, version=version).ready()
    assert server.facts()["kv_tokens"] == 20_000


@both
def test_a_release_that_nobody_knows_states_no_capacity(engine: str, start: Start) -> None:
    server = start(engine, version="99.0").ready()
    assert "kv_tokens" not in server.facts()
    assert server.reading.outcome == "ready"


def test_a_wrong_simulate_key_is_refused_with_the_right_one(start: Start) -> None:
    server = start("vllm", slow_start=3)
    assert server.process.wait(timeout=30) == 2
    assert "did you mean 'slow_start_s'?" in server.log


SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
ARTICLE = "--model-path Qwen/Qwen3-1.7B --served-model-name tiny --mem-fraction-static"


def test_a_first_grammar_kills_an_sglang_whose_memory_is_all_given_away(start: Start) -> None:
    server = start("sglang", f"{ARTICLE} 0.8", kv_tokens=[]).ready()
    assert server.complete().status_code == 200
    with pytest.raises(httpx.TransportError):
        server.complete(response_format=SCHEMA)
    assert server.process.wait(timeout=30) == -signal.SIGKILL


def test_with_some_memory_left_the_first_grammar_costs_a_warning(start: Start) -> None:
    server = start("sglang", f"{ARTICLE} 0.7", kv_tokens=[]).ready()
    assert server.complete(response_format=SCHEMA).status_code == 200
    assert "device-loaded after serving started (free device mem: 0.64 GiB)" in server.log
