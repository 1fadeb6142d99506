"""Control calls: an engine's pages read with limits, because a server may be anything.

No call raises for what a server does: an answer that is late, endless, compressed, broken or too
large is no answer, and the page says why.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from engines import Engine, Fact, Sample, Version

LIMIT_BYTES: Final = 8 << 20
TIMEOUT_S: Final = 15.0
POLL_S: Final = 0.1
METRICS: Final = "metrics"
"""The source that facts of a Prometheus page bear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a server answered.

    Attributes:
        status: HTTP status; None when there was no usable answer.
        text: the body, invalid UTF-8 replaced; empty without an answer.
        fault: why there was no usable answer.
    """

    status: int | None = None
    text: str = ""
    fault: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is 200."""
        return self.status == 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """How control calls are made.

    Attributes:
        timeout_s: longest time of a whole call.
        headers: further request headers (an API key).
        give_up: polled during a call; true ends it.
        transport: what carries the calls in tests, None for the network.
    """

    timeout_s: float = TIMEOUT_S
    headers: Mapping[str, str] | None = None
    give_up: Callable[[], bool] = lambda: False
    transport: httpx.AsyncBaseTransport | None = None

    def get(self, url: str) -> Page:
        """Return the page at `url`."""
        return self.call("GET", url)

    def call(self, method: str, url: str, body: object = None) -> Page:
        """Return what a server answers to a call, with a JSON body unless that is None.

        It runs on a thread of its own: a signal that ends the run is raised in the main thread,
        and inside an event loop it would end as a traceback or not at all.
        """
        left = threading.Event()
        with ThreadPoolExecutor(max_workers=1) as thread:
            answer = thread.submit(lambda: asyncio.run(self._asked(method, url, body, left)))
            try:
                return answer.result()
            finally:
                left.set()

    async def _asked(self, method: str, url: str, body: object, left: threading.Event) -> Page:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.timeout_s
        call = asyncio.ensure_future(self._call(method, url, body))
        while not call.done():
            if loop.time() >= deadline_s:
                call.cancel()
                return Page(fault=f"no answer within {self.timeout_s:g} s")
            if left.is_set() or self.give_up():
                call.cancel()
                return Page(fault="given up")
            await asyncio.wait({call}, timeout=min(POLL_S, deadline_s - loop.time()))
        return call.result()

    async def _call(self, method: str, url: str, body: object) -> Page:
        try:
            async with httpx.AsyncClient(
                transport=self.transport,
                timeout=self.timeout_s,
                trust_env=False,  # a proxy must not stand between us and a server beside us
                verify=ssl.create_default_context() if url.startswith("https:") else False,
            ) as client:
                headers = {"Accept-Encoding": "identity", **(self.headers or {})}
                async with client.stream(method, url, json=body, headers=headers) as response:
                    return await _read(response)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return Page(fault=f"{type(error).__name__}: {error}")


async def _read(response: httpx.Response) -> Page:
    if response.headers.get("content-encoding", "identity") != "identity":
        return Page(fault="a compressed answer, which was not asked for")
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > LIMIT_BYTES:
            return Page(fault=f"an answer of over {LIMIT_BYTES >> 20} MiB")
    return Page(status=response.status_code, text=body.decode("utf-8", errors="replace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a server's pages say at one moment.

    Attributes:
        facts: from all pages that answered.
        silent: sources that should have answered and did not, with what happened instead; a page
            that does not exist is not silent.
    """

    facts: tuple[Fact, ...]
    silent: Mapping[str, str]


def stated(engine: Engine, base_url: str, caller: Caller | None = None) -> Stated:
    """Return what an engine's info pages and its metrics state now.

    Of several pages of one source the later ones are older names: they are asked where those
    before gave nothing.
    """
    call = caller or Caller()
    found: dict[str, tuple[Fact, ...]] = {}
    silent: dict[str, str] = {}
    for probe in engine.probes:
        if not found.get(probe.source):
            page = call.get(base_url + probe.path)
            found[probe.source] = probe.read(page.text) if page.ok else ()
            silent |= _silence(probe.source, probe.path, page)
    if engine.metrics_path is not None:
        page = call.get(base_url + engine.metrics_path)
        found[METRICS] = engine.metrics_facts(samples_of(page.text) if page.ok else ())
        silent |= _silence(METRICS, engine.metrics_path, page)
    return Stated(
        facts=tuple(fact for facts in found.values() for fact in facts),
        silent={source: said for source, said in silent.items() if not found[source]},
    )


def _silence(source: str, path: str, page: Page) -> dict[str, str]:
    if page.status is not None and page.status < 500:
        return {}
    return {source: f"{path}: {page.fault or f'status {page.status}'}"}


def counters(engine: Engine, base_url: str, caller: Caller | None = None) -> dict[str, float]:
    """Return the running totals and gauges of an engine now; what it does not tell is absent."""
    samples = _samples(engine, base_url, caller or Caller())
    return engine.counters(samples) if samples else {}


def flush(
    engine: Engine,
    base_url: str,
    caller: Caller | None = None,
    version: Version | None = None,
) -> bool | None:
    """Empty an engine's prefix cache; return whether that was done, None when nobody can tell.

    Where the release is known to say so also when it did not, nobody can tell.
    """
    if engine.flush is None:
        return None
    page = (caller or Caller()).call(engine.flush.method, base_url + engine.flush.path)
    done = None if page.status is None else engine.flush.done(page.status, page.text)
    is_old = version is not None and version < engine.flush.sure_from
    return None if done and is_old else done


def samples_of(text: str) -> tuple[Sample, ...]:
    """Return the samples of a Prometheus page; none where any line of it breaks the format.

    Format: https://prometheus.io/docs/instrumenting/exposition_formats/
    """
    try:
        return tuple(
            Sample(name=sample.name, labels=dict(sample.labels), value=float(sample.value))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )
    except ValueError:
        return ()


def _samples(engine: Engine, base_url: str, caller: Caller) -> tuple[Sample, ...]:
    if engine.metrics_path is None:
        return ()
    page = caller.get(base_url + engine.metrics_path)
    return samples_of(page.text) if page.ok else ()
