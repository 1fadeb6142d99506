"""Ready means: my server runs, my port names my model, one token was generated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from engines import Engine, Sampling
from runner.launchers import Exit, Way
from runner.ready import Readiness, wait_until_ready

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

    def wait(self, timeout_s: float = 60) -> Readiness:
        return wait_until_ready(
            self,
            engine=ENGINE,
            model="mine",
            timeout_s=timeout_s,
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
