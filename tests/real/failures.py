"""Provoke failures on the real engines in Docker, and say how `runner exec` classed each.

    python3 -m tests.real.failures [WORD...]

One experiment and one line for each failure whose name holds a WORD, all of them without one. Each
declares its cause as its answer, so a right class is an exit code of 0. It takes half an hour.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import engines
from runner.stored.frames import results
from tests.real.booting import IMAGES, MODEL

GIB = 1 << 30

EXPERIMENT = """
question = "Is {name} classed as {cause}?"
boots = 1

[common]
gpus = 0
graphs = false
shm_bytes = 1073741824
expect = {{ outcome = "failed", cause = "{cause}" }}

[engines.{engine}]
image = "{image}"
{keys}

[[loads]]
workload = "random"
input_tokens = 128
output_tokens = {output_tokens}
concurrency = 1
requests = 4

[timeouts]
ready_s = {ready_s}
stop_s = 5

[cache]
models = "{models}"
compile = "none"
"""

# Python runs this file before the server: it takes the server's port where it is still free
SQUATTER = """
import socket
taken = socket.socket()
try:
    taken.bind(("0.0.0.0", {port}))
    taken.listen()
except OSError:
    pass
"""

Meddle = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failure to provoke.

    Attributes:
        name: what is done.
        engine: to which engine.
        cause: the class it must get.
        keys: TOML lines of the engine's section; those of a working server where they are absent.
        meddle: what is done to the container, given its id.
        ready_s: limit of the wait for readiness.
        output_tokens: length of the answers asked.
    """

    name: str
    engine: str
    cause: str
    keys: dict[str, str]
    meddle: Meddle | None = None
    ready_s: float = 900
    output_tokens: int = 16

    def toml(self, models: Path) -> str:
        """Return it as an experiment; `models` is an empty Hugging Face home."""
        works = {
            "model": f'"{MODEL}"',
            "context_tokens": "2048",
            "memory": "{ kv_tokens = 20480 }",
        }
        keys = {key: value for key, value in {**works, **self.keys}.items() if value}
        return EXPERIMENT.format(
            name=f"{self.engine} {self.name}",
            cause=self.cause,
            engine=self.engine,
            image=IMAGES[self.engine],
            keys="\n".join(f"{key} = {value}" for key, value in keys.items()),
            ready_s=self.ready_s,
            output_tokens=self.output_tokens,
            models=models,
        )


def failures(folder: Path) -> Iterator[Failure]:
    """Yield all failures; a folder takes the files that some of them need."""
    for engine in IMAGES:
        yield from _asked_wrong(engine)
        yield from _done_to_it(engine, folder)
    yield Failure(
        name="kv_too_small",
        engine="vllm",
        cause="kv_too_small_for_max_model_len",
        keys={"memory": "{ kv_bytes = 1048576 }", "context_tokens": "8192"},
    )
    yield Failure(
        name="no_kv_memory",
        engine="sglang",
        cause="kv_no_memory",
        keys={"memory": "{ fraction = 0.00001 }"},
    )
    size_gb = (_available_bytes() - 10 * GIB) / 1e9 + 2
    yield Failure(
        name="hicache",
        engine="sglang",
        cause="hicache_host_memory",
        keys={"flags": f"{{ enable_hierarchical_cache = true, hicache_size = {size_gb:.0f} }}"},
    )


def _asked_wrong(engine: str) -> Iterator[Failure]:
    def asked(name: str, cause: str, **keys: str) -> Failure:
        return Failure(name=name, engine=engine, cause=cause, keys=keys)

    yield asked("wrong_flag", "bad_flag", flags="{ no_such_flag = 1 }")
    yield asked("wrong_choice", "bad_flag", kv_dtype='"fp3"')
    yield asked("quantization", "quantization_unsupported", weights='"awq"')
    # neither quantizes to FP8 beside activations of 32 bits; an FP8 KV cache some CPUs can do
    yield asked("dtype", "dtype_unsupported", weights='"fp8"', dtype='"float32"')
    yield asked("context", "context_len_too_long", context_tokens="100000")
    yield asked("no_model", "model_not_found", model='"nobody/no-such-model"')


def _done_to_it(engine: str, folder: Path) -> Iterator[Failure]:
    def done(name: str, cause: str, **more: Any) -> Failure:
        return Failure(**{"name": name, "engine": engine, "cause": cause, "keys": {}, **more})

    path = folder / engine / "usercustomize.py"
    path.parent.mkdir()
    path.write_text(SQUATTER.format(port=engines.get(engine).port))
    taken = {
        "mounts": f'{{ "/opt/squatter" = "{path.parent}" }}',
        "env": '{ PYTHONPATH = "/opt/shim:/opt/squatter" }',
    }
    yield done("port", "port_in_use", keys=taken)
    yield done("out_of_memory", "oom_killed", keys={"memory_limit_bytes": str(400 << 20)})
    yield done("killed_early", "killed", meddle=_after(10, "kill"))
    yield done("killed_in_load", "killed", meddle=_once("POST", "kill"), output_tokens=1000)
    yield done("hangs", "never_ready", meddle=_after(5, "kill", "-s", "STOP"), ready_s=30)


def _after(seconds: float, *words: str) -> Meddle:
    """Return what gives a Docker command about the container some time after it began."""

    def meddle(container: str) -> None:
        time.sleep(seconds)
        _docker(*words, container)

    return meddle


def _once(sign: str, *words: str) -> Meddle:
    """Return what does so once a sign stands in its log."""

    def meddle(container: str) -> None:
        while sign not in _docker("logs", container):
            time.sleep(0.5)
        time.sleep(2)
        _docker(*words, container)

    return meddle


def provoke(failure: Failure, folder: Path) -> bool:
    """Run one failure, print its line, and say whether it was classed right."""
    file = folder / f"{failure.engine}_{failure.name}.toml"
    models = folder / "models"
    models.mkdir(exist_ok=True)
    file.write_text(failure.toml(models))
    began_s = time.monotonic()
    program = Path(sys.executable).with_name("runner")
    with file.with_suffix(".log").open("w+") as output:
        running = subprocess.Popen(
            [str(program), "exec", str(file), "--results", str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        if failure.meddle is not None:
            threading.Thread(target=_meddle, args=(failure.meddle, running), daemon=True).start()
        code = running.wait(timeout=1500)
        output.seek(0)
        said = output.read()
    seen: dict[str, Any] = {}
    if code in (0, 1):
        seen = dict(results(folder / file.stem).boots.iloc[-1])
    right = code == 0 and seen.get("cause") == failure.cause
    words = ("outcome", "phase", "cause", "origin", "exit_code", "oom_killed")
    told = ", ".join(f"{word} {seen.get(word)}" for word in words)
    took = f"{time.monotonic() - began_s:4.0f} s"
    print("ok   " if right else "WRONG", f"{failure.engine:6} {failure.name:15} {took}  {told}")
    print("     ", *list(seen.get("evidence", []))[:1], flush=True)
    if not right:
        print(
            f"      expected {failure.cause}, exit code 0; it was {code}:\n{said[-3000:]}",
            flush=True,
        )
    return right


def _meddle(meddle: Meddle, running: subprocess.Popen[bytes]) -> None:
    """Wait for the container that this process starts, then let it be meddled with."""
    while running.poll() is None:
        if found := _docker("ps", "--quiet", "--filter", f"label=runner.owner.pid={running.pid}"):
            meddle(found.split()[0])
            return
        time.sleep(0.2)


def _docker(*words: str) -> str:
    done = subprocess.run(
        ["docker", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return sizes["MemAvailable"]


def main(words: list[str]) -> int:
    """Provoke what is asked; return 1 when any was classed wrong."""
    folder = Path(tempfile.mkdtemp(prefix="runner-failures-"))
    wanted = [
        failure
        for failure in failures(folder)
        if not words or any(word in f"{failure.engine}_{failure.name}" for word in words)
    ]
    right = [provoke(failure, folder) for failure in wanted]
    print(f"{sum(right)} passed, {len(right) - sum(right)} failed; all of it is in {folder}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
