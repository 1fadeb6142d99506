"""Ready means: my server runs, my port names my model, one token was generated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from engines import Engine, Sampling
from runner.boots.growing import GrowingLog
from runner.boots.ready import Readiness, wait_until_ready
from runner.launchers import Exit, Way

Answer = httpx.Response | Exception

MODELS = httpx.Response(200, json={"data": [{"id": "mine"}, {"id": "mine-lora"}]})
TOKEN = httpx.Response(200, json={"choices": [{"text": ""}], "usage": {"completion_tokens": 1}})


def completion(
    model: str, tokens: Sequence[int], output_tokens: int, sampling: Sampling
) -> dict[str, object]:
    del sampling
    return {
        "model": model,
        "prompt": list(tokens),
        "max_tokens": output_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


ENGINE = Engine(
    name="toy",
    port=1,
    image_program=(),
    local_program=(),
    known=((1,), (1,)),
    arguments=lambda served: pytest.fail("nothing is started here"),
    completion=completion,
)


@dataclass
class Toy:
    """A server that answers from a script and lives until it is told otherwise."""

    models: list[Answer]
    tokens: list[Answer] = field(default_factory=list)
    ends_after_calls: int = 10_000
    calls: list[str] = field(default_factory=list)
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    now_s: float = 50.0
    control_url: str = "http://toy:1"
    load_host: str = "toy"
    load_port: int = 1
    way: Way = "loopback"
    log: GrowingLog | None = None
    says: dict[float, str] = field(default_factory=dict)
    output: Path | None = None

    def exited(self) -> Exit | None:
        return Exit(code=1) if len(self.calls) >= self.ends_after_calls else None

    def stop(self, grace_s: float) -> Exit:
        raise NotImplementedError

    def remove(self) -> None:
        raise NotImplementedError

    def seconds_of_line(self, line: int) -> float | None:
        raise NotImplementedError

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(request.url.path)
        if request.url.path == "/v1/completions":
            self.bodies.append(json.loads(request.content))
        script = self.models if request.url.path == "/v1/models" else self.tokens
        found = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found.status_code, content=found.content)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for at_s in [at_s for at_s in self.says if self.now_s >= at_s]:
            assert self.output is not None
            with self.output.open("a") as output:
                output.write(self.says.pop(at_s) + "\n")

    def wait(self, timeout_s: float = 60) -> Readiness:
        return wait_until_ready(
            self,
            engine=ENGINE,
            model="mine",
            timeout_s=timeout_s,
            log=self.log,
            clock=lambda: self.now_s,
            sleep=self.sleep,
            transport=httpx.MockTransport(self.answer),
        )


REFUSED = httpx.ConnectError("connection refused")


def test_a_server_that_names_the_model_and_generates_a_token_is_ready() -> None:
    toy = Toy(models=[REFUSED, httpx.Response(503), MODELS], tokens=[TOKEN])
    ready = toy.wait()
    assert ready.cause is None
    assert ready.listed_s == ready.token_s == pytest.approx(0.4)
    assert toy.calls == ["/v1/models"] * 3 + ["/v1/completions"]


def test_the_token_is_asked_for_without_a_stream_and_with_a_length_of_one() -> None:
    toy = Toy(models=[MODELS], tokens=[TOKEN])
    toy.wait()
    (body,) = toy.bodies
    assert (body["model"], body["max_tokens"], body["stream"]) == ("mine", 1, False)
    assert "stream_options" not in body


def test_the_wait_ends_at_once_when_the_server_does() -> None:
    toy = Toy(models=[REFUSED], ends_after_calls=3)
    ready = toy.wait(timeout_s=1e9)
    assert ready.cause == "exited"
    assert "code=1" in ready.message
    assert len(toy.calls) == 3


def test_a_server_that_is_dead_already_is_not_asked() -> None:
    toy = Toy(models=[MODELS], tokens=[TOKEN], ends_after_calls=0)
    assert toy.wait().cause == "exited"
    assert toy.calls == []


def test_a_stranger_that_answers_in_place_of_a_dead_server_is_not_taken_for_it() -> None:
    toy = Toy(models=[MODELS], tokens=[TOKEN], ends_after_calls=2)
    assert toy.wait().cause == "exited"


def test_another_model_on_the_port_is_told_with_its_name() -> None:
    toy = Toy(models=[httpx.Response(200, json={"data": [{"id": "theirs"}]})])
    ready = toy.wait()
    assert ready.cause == "wrong_model"
    assert "theirs" in ready.message


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, json={"choices": [{"text": "x"}], "usage": {"completion_tokens": 0}}),
        httpx.Response(200, json={"choices": []}),
        httpx.Response(200, content=b"not json"),
        httpx.Response(200, content=b"[" * 100_000),
        httpx.Response(400, json={"error": "bad prompt"}),
    ],
)
def test_a_server_that_generates_nothing_has_no_token(answer: httpx.Response) -> None:
    toy = Toy(models=[MODELS], tokens=[answer])
    ready = toy.wait()
    assert ready.cause == "no_token"
    assert toy.calls == ["/v1/models", "/v1/completions"]


def test_a_text_without_usage_counts_as_a_token() -> None:
    toy = Toy(models=[MODELS], tokens=[httpx.Response(200, json={"choices": [{"text": "x"}]})])
    assert toy.wait().cause is None


def test_a_server_that_warms_up_may_refuse_completions_for_a_while() -> None:
    toy = Toy(models=[MODELS], tokens=[httpx.Response(503), httpx.ReadError("reset"), TOKEN])
    assert toy.wait().cause is None


@pytest.mark.parametrize(
    ("models", "tokens", "cause", "words"),
    [
        (REFUSED, TOKEN, "never_ready", "connection refused"),
        (httpx.Response(500), TOKEN, "never_ready", "answered 500"),
        (httpx.Response(200, json={"data": []}), TOKEN, "never_ready", "names no model"),
        (httpx.Response(200, json={"data": 3}), TOKEN, "never_ready", "names no model"),
        (httpx.Response(200, json=[1]), TOKEN, "never_ready", "names no model"),
        (httpx.Response(200, json={"data": [{"id": 7}, 1]}), TOKEN, "never_ready", "no model"),
        (MODELS, httpx.Response(500, text="boom"), "no_token", "boom"),
    ],
)
def test_a_wait_that_is_over_tells_what_was_seen_last(
    models: Answer, tokens: Answer, cause: str, words: str
) -> None:
    toy = Toy(models=[models], tokens=[tokens])
    ready = toy.wait(timeout_s=5)
    assert ready.cause == cause
    assert words in ready.message
    assert "5 s" in ready.message
    assert toy.now_s == pytest.approx(55, abs=0.3)


def test_a_call_that_hangs_ends_when_the_server_does() -> None:
    toy = Toy(models=[MODELS], tokens=[TOKEN], ends_after_calls=1)

    class Hanging(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            toy.calls.append(request.url.path)
            await asyncio.sleep(3600)
            raise AssertionError

    ready = wait_until_ready(toy, engine=ENGINE, model="mine", timeout_s=3600, transport=Hanging())
    assert ready.cause == "exited"


def talking(path: Path, says: dict[float, str], engine: str = "sglang", **script: Any) -> Toy:
    """Return a toy that writes lines into its log some time after the wait began."""
    lines = {50 + at_s: line for at_s, line in says.items()}
    usual = {"models": [MODELS], "tokens": [TOKEN]}
    return Toy(**{**usual, **script}, log=GrowingLog(path, engine), says=lines, output=path)


UVICORN = "[2026-12-01 10:00:00] INFO:     Application startup complete."
ROLLS = "[2026-12-01 10:00:02] The server is fired up and ready to roll!"
TAKEN = (
    "[2026-12-01 10:00:00] ERROR:    [Errno 98] error while attempting to bind on address "
    "('0.0.0.0', 30000): address already in use"
)


def test_a_server_that_still_warms_itself_up_is_waited_for(tmp_path: Path) -> None:
    toy = talking(tmp_path / "log", {0: UVICORN, 3: ROLLS})
    toy.sleep(0)
    ready = toy.wait()
    assert (ready.cause, ready.unsaid) == (None, False)
    assert ready.token_s == 0
    assert toy.now_s == pytest.approx(53, abs=0.3)
    assert toy.calls.count("/v1/completions") == 1


@pytest.mark.parametrize("timeout_s", [60, 10])
def test_a_log_that_never_says_ready_ends_the_wait_and_is_told(
    tmp_path: Path, timeout_s: float
) -> None:
    toy = talking(tmp_path / "log", {0: UVICORN})
    toy.sleep(0)
    ready = toy.wait(timeout_s)
    assert (ready.cause, ready.unsaid) == (None, True)
    assert toy.now_s <= 50 + min(timeout_s, 20) + 0.3


def test_a_server_that_dies_while_it_warms_itself_up_is_not_ready(tmp_path: Path) -> None:
    toy = talking(tmp_path / "log", {0: UVICORN}, ends_after_calls=2)
    toy.sleep(0)
    assert toy.wait().cause == "exited"


@pytest.mark.parametrize("engine", ["sglang", "toy"])
def test_a_log_that_says_nothing_is_not_waited_for(tmp_path: Path, engine: str) -> None:
    says: dict[float, str] = {0: "some words"} if engine == "toy" else {}
    toy = talking(tmp_path / "log", says, engine)
    toy.sleep(0)
    ready = toy.wait()
    assert (ready.cause, ready.unsaid) == (None, False)
    assert toy.now_s == 50


def test_a_taken_port_ends_the_wait_for_a_server_that_lives_on(tmp_path: Path) -> None:
    toy = talking(tmp_path / "log", {2: TAKEN}, models=[REFUSED])
    ready = toy.wait(timeout_s=600)
    assert ready.cause == "port_in_use"
    assert toy.now_s == pytest.approx(67, abs=0.5)


def test_a_server_that_goes_on_behind_a_taken_port_is_waited_for(tmp_path: Path) -> None:
    line = "[2026-12-01 10:00:00] Load weight begin"
    loads = dict.fromkeys((10.0, 20.0, 30.0, 40.0, 50.0), line)
    script = [REFUSED] * 300 + [MODELS]
    toy = talking(tmp_path / "log", {2: TAKEN, **loads, 61: ROLLS}, models=script)
    assert toy.wait(timeout_s=600).cause is None


def test_a_stranger_on_the_taken_port_is_not_taken_for_the_server(tmp_path: Path) -> None:
    toy = talking(tmp_path / "log", {0: TAKEN}, tokens=[httpx.Response(503)])
    toy.sleep(0)
    assert toy.wait(timeout_s=600).cause == "port_in_use"


def test_a_server_that_ends_because_its_port_is_taken_tells_how(tmp_path: Path) -> None:
    toy = talking(tmp_path / "log", {0: TAKEN}, models=[REFUSED], ends_after_calls=5)
    toy.sleep(0)
    assert toy.wait().cause == "exited"
