"""vLLM's dialect, put together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from engines.sim.dialect import Phase, Reply
from engines.sim.options import Simulate
from engines.sim.profile import Profile
from engines.sim.say import say
from engines.sim.setup import Setup
from engines.sim.shapes import Shape
from engines.sim.step import Step
from engines.sim.twin import Twin
from engines.sim.vllm import arguments, failures, log, pages


class Vllm:
    """vLLM as clients and its log's readers see it."""

    name = "vllm"
    dies_politely = True
    warm_share = 0.0
    binds_first = True

    def __init__(self) -> None:
        self._marked = (0, 0)

    def setup(
        self, argv: Sequence[str], simulate: Simulate, profile: Profile
    ) -> tuple[Setup, Shape]:
        """Read the command line of `vllm serve`."""
        return arguments.setup(argv, simulate, profile)

    def phases(self, twin: Twin) -> Iterator[Phase]:
        """Yield the start-up."""
        return log.phases(twin)

    def failure(self, twin: Twin, phase: str) -> str | None:
        """Return the exception that memory forces in a phase."""
        return failures.refusal(twin, phase)

    def crash(self, twin: Twin, phase: str) -> str:
        """Return the exception of a crash that was ordered for a phase."""
        return failures.crash(twin, phase)

    def failed_start(self, twin: Twin, error: str) -> tuple[str, ...]:
        """Return the log of a start that ends with an exception."""
        return failures.start_lines(twin, error)

    def death(self, twin: Twin, error: str) -> tuple[str, ...]:
        """Return the log of an engine that dies of an exception while it serves."""
        return failures.death_lines(twin, error)

    def first_grammar(self, twin: Twin) -> tuple[tuple[str, ...], bool]:
        """Return what the first constrained request brings."""
        return (), True

    def warm(self, twin: Twin) -> tuple[str, ...]:
        """Return the line that says it is ready."""
        return ("INFO:     Application startup complete.",)

    def page(self, twin: Twin, method: str, path: str, query: Mapping[str, str]) -> Reply | None:
        """Answer metrics, version, server information and the flush."""
        if path == "/metrics":
            return Reply(body=pages.metrics(twin).encode(), content_type="text/plain")
        if path == "/version":
            return _json({"version": twin.setup.version, "simulated": True})
        return _control(twin, method, path, query) if twin.setup.control else None

    def periodic_lines(self, twin: Twin, seconds: float) -> tuple[str, ...]:
        """Return the statistics of the last seconds, nothing from an idle engine."""
        totals = twin.totals
        prompt, output = totals.prompt_tokens, totals.generated_tokens
        before_prompt, before_output = self._marked
        self._marked = (prompt, output)
        if (prompt, output) == (before_prompt, before_output):
            return ()
        rates = (prompt - before_prompt) / seconds, (output - before_output) / seconds
        return (log.stats_line(twin, *rates),)

    def step_lines(self, twin: Twin, step: Step) -> tuple[str, ...]:
        """Return nothing: vLLM's log does not speak of steps."""
        return ()

    def access_line(self, client: str, request: str, status: int) -> str:
        """Return uvicorn's line."""
        phrase = {200: "OK", 400: "Bad Request", 404: "Not Found"}.get(status, "Error")
        return f'INFO:     {client} - "{request}" {status} {phrase}'

    def stop_lines(self, twin: Twin) -> tuple[str, ...]:
        """Return the lines of a stop that was asked for."""
        return log.stop_lines(twin)

    def error_body(self, message: str, status: int) -> bytes:
        """Return an error as vLLM's API gives it."""
        kind = {404: "NotFoundError", 500: "InternalServerError"}.get(status, "BadRequestError")
        error = {"message": message, "type": kind, "param": None, "code": status}
        return json.dumps({"error": error}).encode()


def _control(twin: Twin, method: str, path: str, query: Mapping[str, str]) -> Reply | None:
    """Answer what vLLM offers in development mode alone."""
    if path == "/server_info" and query.get("config_format") == "json":
        return Reply(body=pages.server_info(twin).encode())
    if path == "/server_info":
        return _json({"simulated": True, "vllm_config": log.config(twin)})
    if path == "/reset_prefix_cache" and method == "POST":
        done = not twin.simulate.stuck_flush and twin.cache.reset()
        say(*log.reset_lines(twin, done=done))
        # before 0.26 the answer says nothing of success
        return _json({"success": done}) if twin.setup.release >= (0, 26) else Reply(body=b"")
    return None


def _json(content: object) -> Reply:
    return Reply(body=json.dumps(content).encode())
