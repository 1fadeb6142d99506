"""The server: takes requests, lets the engine's clock run, sends every token when it is due."""

from __future__ import annotations

import asyncio
import heapq
import json
import os
import signal
import socket
from bisect import bisect_left

from engines.sim import answers, asked
from engines.sim.alarm import Alarm
from engines.sim.answers import Answer
from engines.sim.asked import Asked, BadRequestError
from engines.sim.dialect import Dialect, Reply
from engines.sim.say import say
from engines.sim.step import Request, Step
from engines.sim.twin import ITERATION_BOUNDS, Twin
from engines.sim.wire import Connection

_COMPLETIONS = ("/v1/completions", "/v1/chat/completions")
STATS_S = 10.0


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
        self.ended = loop.create_future()
        self.ready = False
        self._requests = 0
        self._arriving: list[tuple[float, int, Request]] = []
        self._alive: set[Request] = set()
        self._gone: list[Request] = []
        self._grammars: set[str] = set()
        self._born_s = loop.time()
        self._alarm = Alarm(loop, self._ring)

    def connection(self) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(self._serve)

    def stop(self, code: int = 0) -> None:
        """End the server; requests under way lose their connections."""
        if not self.ended.done():
            self.ended.set_result(code)

    def drop(self) -> None:
        """Break the connections of all requests under way."""
        for request in list(self._alive):
            request.owner.connection.drop()

    def periodic(self) -> None:
        """Print the statistics of the last seconds, and again in some seconds."""
        simulated_s = STATS_S * self.twin.simulate.speed
        say(*self.dialect.periodic_lines(self.twin, simulated_s))
        self.loop.call_later(STATS_S, self.periodic)

    def _clock(self) -> float:
        """Return the simulated seconds; a step that ends late holds them back."""
        now_s = (self.loop.time() - self._born_s) * self.twin.simulate.speed
        engine = self.twin.engine
        return now_s if engine.step is None else min(now_s, engine.now_s)

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
        """Take a request in; return the status its answer begins with."""
        taken_s = self._clock()  # reading it is part of the engine's own time for that
        try:
            wanted = asked.read(self.twin.setup, path, body, self.twin.kv_tokens)
        except BadRequestError as refused:
            error = self.dialect.error_body(refused.message, refused.status)
            connection.reply(error, refused.status)
            return refused.status
        answer = Answer(self.twin.setup, wanted, connection, answers.now())
        request = self._request(wanted, answer)
        if self.twin.simulate.zero_tokens:
            answer.end(request)
            return 200
        self._alive.add(request)
        connection.lost = lambda: self._gone.append(request)
        enters_s = taken_s + self.twin.overheads.request_s + self._grammar_s(wanted.grammar)
        heapq.heappush(self._arriving, (enters_s, request.number, request))
        if self.twin.engine.step is None:
            self._wait()
        return 200

    def _request(self, wanted: Asked, answer: Answer) -> Request:
        self._requests += 1
        request = Request(
            self._requests,
            wanted.prompt,
            wanted.output_tokens,
            limit_tokens=wanted.limit_tokens,
            fixed_length=wanted.fixed_length,
            constrained=bool(wanted.grammar),
            owner=answer,
        )
        request.seed += self.twin.simulate.wrong_answers
        return request

    def _grammar_s(self, grammar: str) -> float:
        """Return how long a grammar takes to compile: nothing once it is known."""
        if not grammar or grammar in self._grammars:
            return 0.0
        if not self._grammars:
            lines, survives = self.dialect.first_grammar(self.twin)
            say(*lines)
            if not survives:
                self._die(self.dialect.crash(self.twin, "load"))
        self._grammars.add(grammar)
        return self.twin.profile.grammar_s

    def _wait(self) -> None:
        """Ring when the next request can be scheduled."""
        if self._arriving:
            self._alarm.set(self._moment(self._arriving[0][0]))

    def _moment(self, simulated_s: float) -> float:
        """Return the moment of the loop's clock for one of the engine's."""
        return self._born_s + simulated_s / self.twin.simulate.speed

    def _ring(self) -> None:
        engine = self.twin.engine
        if self.ended.done():
            return
        if engine.step is not None:
            late_s = self.loop.time() - self._moment(engine.now_s)
            self.twin.totals.late_s = max(self.twin.totals.late_s, late_s)
            self._end_step(engine.commit())
        elif self._arriving:
            engine.now_s = max(engine.now_s, self._arriving[0][0])
        self._begin()

    def _begin(self) -> None:
        """Launch the next step, or wait for a request."""
        engine = self.twin.engine
        while self._arriving and self._arriving[0][0] <= engine.now_s:
            engine.add(heapq.heappop(self._arriving)[2])
        if self._hangs():
            return
        ends = engine.begin()
        if ends:
            self._alarm.set(self._moment(ends[0]))
        else:
            self._wait()

    def _hangs(self) -> bool:
        simulate = self.twin.simulate
        after = simulate.hang_after_requests
        return simulate.hang_at == "load" or (
            after is not None and self.twin.totals.succeeded >= after
        )

    def _end_step(self, step: Step) -> None:
        for request in step.emitted:
            request.owner.token(request)
        for request in step.finished:
            request.owner.end(request)
            self._alive.discard(request)
        self._count(step)
        say(*self.dialect.step_lines(self.twin, step))
        self._forget()
        self._fail_on_order()

    def _forget(self) -> None:
        """Drop the requests whose clients have gone."""
        for request in self._gone:
            self._arriving = [entry for entry in self._arriving if entry[2] is not request]
            self.twin.engine.abort(request)
            self.twin.totals.aborted += 1
            self._alive.discard(request)
        if self._gone:
            heapq.heapify(self._arriving)
            self._gone.clear()

    def _count(self, step: Step) -> None:
        totals = self.twin.totals
        totals.generated_tokens += len(step.emitted)
        totals.steps += 1
        tokens = step.chunk_tokens + len(step.decodes)
        totals.iteration_tokens += tokens
        totals.iterations[bisect_left(ITERATION_BOUNDS, tokens)] += 1
        totals.succeeded += len(step.finished)
        for request, first, _ in step.chunks:
            if first == (request.cached or 0) and not request.preemptions:
                totals.prompt_tokens += request.prompt_tokens

    def _fail_on_order(self) -> None:
        simulate = self.twin.simulate
        after, most = simulate.die_after_requests, simulate.oom_under_load
        if after is not None and self.twin.totals.succeeded >= after:
            os.kill(os.getpid(), signal.SIGKILL)
        if (
            most is not None and len(self.twin.scheduler.running) >= most
        ) or simulate.crash_at == "load":
            self._die(self.dialect.crash(self.twin, "load"))

    def _die(self, error: str) -> None:
        """End of an exception: vLLM tells its clients and stops, SGLang kills itself."""
        say(*self.dialect.death(self.twin, error))
        if not self.dialect.dies_politely:
            os.kill(os.getpid(), signal.SIGKILL)
        text = "EngineCore encountered an issue. See stack trace (above) for the root cause."
        for request in list(self._alive):
            request.owner.fail(self.dialect.error_body(text, 500))
        self.stop(1)


async def run(dialect: Dialect, twin: Twin, sock: socket.socket, warm_s: float) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code.

    The server listens `warm_s` before it says that it is ready: SGLang's warm-up request.
    """
    loop = asyncio.get_running_loop()
    server = Server(dialect, twin, loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    listening = await loop.create_server(server.connection, sock=sock, backlog=4096)
    await asyncio.wait([server.ended], timeout=warm_s)
    server.ready = True
    say(*dialect.warm(twin))
    loop.call_later(STATS_S, server.periodic)
    code: int = await server.ended
    if not code:
        say(*dialect.stop_lines(twin))
    server.drop()
    listening.close()
    await asyncio.sleep(0)
    return code
