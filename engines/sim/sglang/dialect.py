"""SGLang's dialect, put together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from engines.sim.dialect import Phase, Reply
from engines.sim.options import Simulate
from engines.sim.profile import Profile
from engines.sim.say import say
from engines.sim.setup import Setup
from engines.sim.sglang import arguments, failures, log, pages
from engines.sim.sglang.scheduler import SglangScheduler
from engines.sim.shapes import Shape
from engines.sim.step import Step
from engines.sim.twin import Twin

DECODE_LOG_INTERVAL = 40
_FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. (When there are running or "
    "waiting requests, the operation will not be performed.)\n"
)


class Sglang:
    """SGLang as clients and its log's readers see it."""

    name = "sglang"
    dies_politely = False
    warm_share = 0.1
    binds_first = False

    def __init__(self) -> None:
        self._decodes = 0
        self._marked = (0.0, 0)

    def setup(
        self, argv: Sequence[str], simulate: Simulate, profile: Profile
    ) -> tuple[Setup, Shape]:
        """Read the command line of `sglang.launch_server`."""
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
        warning = failures.late_kernel_line(twin)
        survives = failures.spare_bytes(twin) >= twin.profile.grammar_bytes
        return ((warning,) if warning else ()), survives

    def warm(self, twin: Twin) -> tuple[str, ...]:
        """Return the lines of the warm-up request and of being ready."""
        return log.warm(twin)

    def page(self, twin: Twin, method: str, path: str, query: Mapping[str, str]) -> Reply | None:
        """Answer metrics, information and the flush."""
        if path == "/metrics" and twin.setup.metrics:
            return Reply(body=pages.metrics(twin).encode(), content_type="text/plain")
        if path == "/get_server_info" or (path == "/server_info" and _is_new(twin)):
            return Reply(body=pages.server_info(twin).encode())
        if path in ("/model_info", "/get_model_info"):
            return Reply(body=pages.model_info(twin).encode())
        if path == "/flush_cache" and method in ("GET", "POST"):
            return _flush(twin)
        return None

    def periodic_lines(self, twin: Twin, seconds: float) -> tuple[str, ...]:
        """Return the statistics of the last seconds, nothing from an idle engine."""
        return ()

    def step_lines(self, twin: Twin, step: Step) -> tuple[str, ...]:
        """Return the line of a prefill batch, of every fortieth decode, of a retraction."""
        lines = []
        if step.preempted and isinstance(twin.scheduler, SglangScheduler):
            lines.append(log.retract_line(step, twin.scheduler.ratio))
        if step.chunks:
            lines.append(log.prefill_line(twin, step))
        elif step.decodes:
            self._decodes += 1
            if self._decodes % DECODE_LOG_INTERVAL == 0:
                lines.append(log.decode_line(twin, step, self._output_per_s(twin)))
        return tuple(lines)

    def _output_per_s(self, twin: Twin) -> float:
        """Tokens generated per second since the last time this was asked."""
        before_s, before = self._marked
        now_s, now = twin.engine.now_s, twin.totals.generated_tokens
        self._marked = (now_s, now)
        return (now - before) / (now_s - before_s) if now_s > before_s else 0.0

    def access_line(self, client: str, request: str, status: int) -> str:
        """Return uvicorn's line under SGLang's prefix."""
        phrase = {200: "OK", 400: "Bad Request", 404: "Not Found"}.get(status, "Error")
        return log.line(f'INFO:     {client} - "{request}" {status} {phrase}')

    def stop_lines(self, twin: Twin) -> tuple[str, ...]:
        """Return the lines of a stop that was asked for."""
        return log.stop_lines()

    def error_body(self, message: str, status: int) -> bytes:
        """Return an error as SGLang's API gives it."""
        kind = {404: "NotFoundError", 500: "InternalServerError"}.get(status, "BadRequestError")
        error = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
        return json.dumps(error).encode()


def _is_new(twin: Twin) -> bool:
    """Whether the release has the pages' present names."""
    return twin.setup.release >= (0, 5, 6)


def _flush(twin: Twin) -> Reply:
    idle = not twin.scheduler.running and not twin.scheduler.waiting
    if idle and not twin.simulate.stuck_flush and twin.cache.reset():
        say(log.line("Cache flushed successfully!"))
        return Reply(body=_FLUSHED.encode(), content_type="text/plain")
    text = (
        "Cache not flushed because there are pending requests. "
        f"#queue-req: {len(twin.scheduler.waiting)}, #running-req: {len(twin.scheduler.running)}"
    )
    say(log.line(text))
    return Reply(body=f"{text}\n".encode(), status=400, content_type="text/plain")
