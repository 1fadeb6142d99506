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
from engines.sim.vllm import arguments, log, pages


class Vllm:
    """vLLM as clients and its log's readers see it."""

    name = "vllm"
    binds_first = True

    def setup(
        self, argv: Sequence[str], simulate: Simulate, profile: Profile
    ) -> tuple[Setup, Shape]:
        """Read the command line of `vllm serve`."""
        return arguments.setup(argv, simulate, profile)

    def phases(self, twin: Twin) -> Iterator[Phase]:
        """Yield the start-up."""
        return log.phases(twin)

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

    def step_lines(self, twin: Twin, step: Step) -> tuple[str, ...]:
        """Return nothing: vLLM's log does not speak of steps."""
        return ()

    def access_line(self, client: str, request: str, status: int) -> str:
        """Return uvicorn's line."""
        phrase = {200: "OK", 400: "Bad Request", 404: "Not Found"}.get(status, "Error")
        return f'INFO:     {client} - "{request}" {status} {phrase}'

    def stop_lines(self, twin: Twin) -> tuple[str, ...]:
        """Return the lines of a stop that was asked for."""
        return log.stop_lines()

    def error_body(self, message: str, status: int) -> bytes:
        """Return an error as vLLM's API gives it."""
        kind = "NotFoundError" if status == 404 else "BadRequestError"
        error = {"message": message, "type": kind, "param": None, "code": status}
        return json.dumps({"error": error}).encode()


def _control(twin: Twin, method: str, path: str, query: Mapping[str, str]) -> Reply | None:
    """Answer what vLLM offers in development mode alone."""
    if path == "/server_info" and query.get("config_format") == "json":
        return Reply(body=pages.server_info(twin).encode())
    if path == "/server_info":
        return _json({"simulated": True, "vllm_config": log.config(twin)})
    if path == "/reset_prefix_cache" and method == "POST":
        done = twin.cache.reset()
        say(*log.reset_lines(twin, done=done))
        return _json({"success": done})
    return None


def _json(content: object) -> Reply:
    return Reply(body=json.dumps(content).encode())
