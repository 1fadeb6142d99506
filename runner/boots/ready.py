"""Ready means: my server still runs, my port names my model, one token was generated.

Where its log is ours, it must also have said so: a server may still warm itself up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx
import tenacity

from engines import Engine, Sampling
from runner.boots.growing import GrowingLog
from runner.boots.pages import Caller, Page
from runner.launchers import Server

POLL_S: Final = 0.2
MODELS_S: Final = 10.0
PROMPT: Final = (100, 101, 102)
SAYS_SO_S: Final = 20.0
"""How long a server that generates may take until its log says that it is ready: SGLang answers
before it has sent its own first prompt. Old or silenced logs may never say it."""
DIES_S: Final = 15.0
"""How long a server that cannot have its port, and says no more, is given to end by itself: SGLang
lives on. One that goes on saying something found another port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """How the wait for a server ended.

    Attributes:
        cause: None when it is ready, else `exited`, `wrong_model`, `port_in_use`, `no_token` or
            `never_ready`.
        message: what was seen last, for a person.
        listed_s: seconds from the call until `/v1/models` named the model; None if it never did.
        token_s: seconds from the call until the first token was there; None if it never was.
        unsaid: it is ready, but its log did not say so in time.
    """

    cause: str | None
    message: str = ""
    listed_s: float | None = None
    token_s: float | None = None
    unsaid: bool = False


def wait_until_ready(
    server: Server,
    *,
    engine: Engine,
    model: str,
    timeout_s: float,
    log: GrowingLog | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Readiness:
    """Wait until a server serves; return how that ended, at once when the server does.

    Args:
        server: as the launcher gave it.
        engine: which dialect it speaks.
        model: the name it must serve.
        timeout_s: longest wait.
        log: its output, None where that is not ours.
        clock: monotonic seconds.
        sleep: waits between two looks.
        transport: what carries the calls in tests, None for the network.
    """
    wait = _Wait(
        server=server,
        engine=engine,
        model=model,
        began_s=clock(),
        timeout_s=timeout_s,
        log=log,
        clock=clock,
        transport=transport,
    )
    looks = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda seen: seen is None),
        # tenacity's own stop_after_delay reads a clock that cannot be given
        stop=lambda state: wait.left_s <= 0,
        wait=tenacity.wait_fixed(POLL_S),
        sleep=sleep,
        retry_error_callback=lambda state: None,
    )
    return looks(wait.look) or wait.over()


@dataclass(kw_only=True)
class _Wait:
    """One wait: what it looks for and what it saw so far."""

    server: Server
    engine: Engine
    model: str
    began_s: float
    timeout_s: float
    log: GrowingLog | None
    clock: Callable[[], float]
    transport: httpx.AsyncBaseTransport | None
    listed_s: float | None = None
    token_s: float | None = None
    taken: tuple[float, int] | None = None
    seen: str = "nothing was asked yet"

    @property
    def left_s(self) -> float:
        return self.began_s + self.timeout_s - self.clock()

    def look(self) -> Readiness | None:
        """Return how the wait ended, None when it goes on."""
        ended = None if self._is_dead() else self._of_its_port() or self._of_its_answers()
        if self._is_dead():
            return self._ended("exited", f"the server ended: {self.server.exited()}")
        return ended

    def over(self) -> Readiness:
        """Return what a wait that took too long tells."""
        if self.token_s is not None:
            return self._ended(None, "", unsaid=True)
        cause = "never_ready" if self.listed_s is None else "no_token"
        return self._ended(cause, f"not ready within {self.timeout_s:g} s; last: {self.seen}")

    def _of_its_port(self) -> Readiness | None:
        """End the wait for a server that cannot have its port, and lives on."""
        if self.log is None or self.log.cause != "port_in_use":
            return None
        if self.taken is None or self.taken[1] != self.log.read_bytes:
            self.taken = (self.clock(), self.log.read_bytes)
        if self.clock() - self.taken[0] < DIES_S:
            return None
        return self._ended("port_in_use", "its log says that its port is taken, and it lives on")

    def _of_its_answers(self) -> Readiness | None:
        if self.token_s is None:
            refused = self._ask_models()
            if refused is None and self.listed_s is not None and not self._is_dead():
                refused = self._ask_token()
            if self.token_s is None:
                return refused
        log = self.log
        if log is None or log.ready or not log.speaks:
            return self._ended(None, "")
        waited_s = self.clock() - self.began_s - self.token_s
        return self._ended(None, "", unsaid=True) if waited_s >= SAYS_SO_S else None

    def _is_dead(self) -> bool:
        return self.server.exited() is not None

    def _ask_models(self) -> Readiness | None:
        self.listed_s = None
        page = self._call("GET", "/v1/models", MODELS_S)
        names = _names(page)
        if not names:
            self.seen = page.fault or f"/v1/models answered {page.status} and names no model"
        elif self.model not in names:
            return self._ended("wrong_model", f"this port serves {names}, not {self.model!r}")
        else:
            self.listed_s = self.clock() - self.began_s
        return None

    def _ask_token(self) -> Readiness | None:
        body = self.engine.completion(self.model, PROMPT, 1, Sampling())
        body = {**body, "stream": False}
        body.pop("stream_options", None)
        page = self._call("POST", self.engine.completions_path, self.left_s, body)
        if page.ok and _generated(page.text):
            self.token_s = self.clock() - self.began_s
            return None
        self.seen = page.fault or f"a completion answered {page.status}: {page.text[:300]}"
        # 5xx may pass, an engine that refuses or generates nothing will go on so
        return (
            None
            if page.status is None or page.status >= 500
            else self._ended("no_token", self.seen)
        )

    def _call(self, method: str, path: str, limit_s: float, body: object = None) -> Page:
        caller = Caller(
            timeout_s=max(0.1, min(limit_s, self.left_s)),
            give_up=self._is_dead,
            transport=self.transport,
        )
        return caller.call(method, self.server.control_url + path, body)

    def _ended(self, cause: str | None, message: str, *, unsaid: bool = False) -> Readiness:
        return Readiness(
            cause=cause,
            message=message,
            listed_s=self.listed_s,
            token_s=self.token_s if cause is None else None,
            unsaid=unsaid,
        )


def _names(page: Page) -> list[str]:
    """Return the models that a page lists; none where it is no such page."""
    models = _at(_json(page.text), "data") if page.ok else None
    names = [_at(model, "id") for model in models] if isinstance(models, list) else []
    return [name for name in names if isinstance(name, str)]


def _generated(text: str) -> bool:
    """Return whether a completion holds a token, by the server's own count where it gives one."""
    answer = _json(text)
    counted = _at(_at(answer, "usage"), "completion_tokens")
    if isinstance(counted, int):
        return counted > 0
    choices = _at(answer, "choices")
    return isinstance(choices, list) and any(_at(choice, "text") for choice in choices)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
