"""The server: takes requests, lets the engine's clock run, sends every token when it is due."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from bisect import bisect_left

from engines.sim import answers
from engines.sim.alarm import Alarm
from engines.sim.answers import Answer, Asked, BadRequestError
from engines.sim.dialect import Dialect, Reply
from engines.sim.say import say
from engines.sim.step import Request, Step
from engines.sim.twin import ITERATION_BOUNDS, Twin
from engines.sim.wire import Connection

_COMPLETIONS = ("/v1/completions", "/v1/chat/completions")


class Server:
    """One simulated engine behind a socket.

    Args:
        dialect: whose words it uses.
        twin: the engine.
        loop: the event loop; its clock is the engine's, times `speed`.
    """

    def __init__(self, dialect: Dialect, twin: Twin, loop: asyncio.AbstractEventLoop) -> None:
        self.dialect = dialect
        self.twin = twin
        self.loop = loop
        self.ready = False
        self.requests = 0
        self.lag_s = 0.0
        self._gone: list[Request] = []
        self._born_s = loop.time()
        self._alarm = Alarm(loop, self._tick)

    def connection(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self._serve)

    def _clock(self) -> float:
        return (self.loop.time() - self._born_s) * self.twin.simulate.speed

    def _serve(
        self, connection: Connection, method: str, path: str, query: dict[str, str], body: bytes
    ) -> None:
        if path in _COMPLETIONS and method == "POST":
            status = self._complete(connection, path, body)
        else:
            reply = self._page(method, path, query)
            status = reply.status
            connection.reply(reply.body, reply.status, reply.content_type)
        if self.twin.setup.access_log:
            say(self.dialect.access_line(connection.peer, connection.request_line, status))

    def _page(self, method: str, path: str, query: dict[str, str]) -> Reply:
        if path in ("/health", "/health_generate"):
            return Reply(body=b"", status=200 if self.ready else 503)
        if path == "/v1/models":
            return Reply(body=json.dumps(self._models()).encode())
        reply = self.dialect.page(self.twin, method, path, query)
        return reply or Reply(body=b'{"detail":"Not Found"}', status=404)

    def _models(self) -> dict[str, object]:
        setup = self.twin.setup
        card = {
            "id": setup.name,
            "object": "model",
            "created": answers.now(),
            "owned_by": setup.engine,
            "root": setup.model,
            "max_model_len": setup.context_tokens,
        }
        return {"object": "list", "data": [card]}

    def _complete(self, connection: Connection, path: str, body: bytes) -> int:
        try:
            asked = answers.read(self.twin.setup, path, body)
        except BadRequestError as refused:
            error = self.dialect.error_body(refused.message, refused.status)
            connection.reply(error, refused.status)
            return refused.status
        answer = Answer(self.twin.setup, asked, connection, answers.now())
        answer.arrived_s = self._clock()
        request = self._request(asked, answer)
        connection.lost = lambda: self._gone.append(request)
        wait_s = self.twin.overheads.request_s / self.twin.simulate.speed
        self.loop.call_later(wait_s, self._enter, request)
        return 200

    def _request(self, asked: Asked, answer: Answer) -> Request:
        self.requests += 1
        return Request(
            self.requests,
            asked.prompt,
            asked.output_tokens,
            limit_tokens=asked.limit_tokens,
            fixed_length=asked.fixed_length,
            constrained=bool(asked.grammar),
            owner=answer,
        )

    def _enter(self, request: Request) -> None:
        engine = self.twin.engine
        engine.add(request)
        if engine.step is None:
            engine.now_s = max(engine.now_s, self._clock())
            self._begin()

    def _begin(self) -> None:
        ends = self.twin.engine.begin()
        if ends:
            self._alarm.set(self._born_s + ends[0] / self.twin.simulate.speed)

    def _tick(self) -> None:
        engine = self.twin.engine
        self.lag_s = max(self.lag_s, self._clock() - engine.now_s)
        step = engine.commit()
        answers.send_tokens(step.emitted)
        for request in step.finished:
            request.owner.end(request)
        self._count(step)
        say(*self.dialect.step_lines(self.twin, step))
        for request in self._gone:
            engine.abort(request)
            self.twin.totals.aborted += 1
        self._gone.clear()
        self._begin()

    def _count(self, step: Step) -> None:
        totals = self.twin.totals
        emitted, prefilled = len(step.emitted), step.chunk_tokens
        totals.generated_tokens += emitted
        totals.steps += 1
        tokens = prefilled + len(step.decodes)
        totals.iteration_tokens += tokens
        totals.iterations[bisect_left(ITERATION_BOUNDS, tokens)] += 1
        totals.succeeded += len(step.finished)
        for request, first, _ in step.chunks:
            if first == (request.cached or 0) and not request.preemptions:
                totals.prompt_tokens += request.prompt_tokens


async def run(dialect: Dialect, twin: Twin, sock: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    server = Server(dialect, twin, loop)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listening = await loop.create_server(server.connection, sock=sock, backlog=4096)
    server.ready = True
    say(*dialect.warm(twin))
    await stop.wait()
    say(*dialect.stop_lines(twin))
    listening.close()
