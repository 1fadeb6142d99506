"""From a cell to the server that is started for it: command, mounts, environment, labels. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.experiment import Cache, Timeouts
from runner.experiment.aa import AGAIN
from runner.launchers import Launch, Mount
from runner.plan.cells import SIMULATED_PROGRAM, Cell

HF_HOME_IN_CONTAINER = "/root/.cache/huggingface"
CACHE_IN_CONTAINER = "/root/.cache/compile"
_HUB_ENV = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": "/tmp/hf_modules"}  # noqa: S108
"""The model is in the cache: nobody asks the hub, and a model's own code is copied elsewhere."""
_COMPILE_ENV = {
    "VLLM_CACHE_ROOT": "vllm",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "DG_JIT_CACHE_DIR": "deep_gemm",
    "SGLANG_DG_CACHE_DIR": "deep_gemm",
}
"""Where each part of an engine keeps compiled kernels, by the variable that moves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What only the moment of a start knows.

    Attributes:
        port: where it listens.
        boot: its number within the cell, which a simulated engine draws its capacity from.
        night: a number of the night it belongs to, which a simulated engine draws its pace from.
        image: image to start, by digest where it was resolved.
        revision: the model's commit.
        models: the Hugging Face home of this machine.
        compile_folder: folder for compiled kernels, None where none is kept.
        labels: whose it is.
        name: container name.
        writable: the server may write into the model cache.
        gpus: UUIDs it gets, where NVML tells them.
        timeouts: how long Docker may take.
    """

    port: int
    boot: int = 0
    night: int = 0
    image: str | None = None
    revision: str | None = None
    models: Path | None = None
    compile_folder: Path | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    name: str = "runner-server"
    writable: bool = False
    gpus: tuple[str, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)


def launch_of(cell: Cell, now: Circumstances) -> Launch:
    """Return the server to start for a cell."""
    in_docker = cell.launcher == "docker"
    host = "0.0.0.0" if in_docker else "127.0.0.1"  # noqa: S104 - the container's own network
    arguments = cell.arguments(host, now.port, now.revision)
    cached = _cache_env(now) if in_docker and not cell.simulated else {}
    env = {**cached, **arguments.env, **cell.keys.env}
    return Launch(
        name=now.name,
        image=(now.image or cell.keys.image) if in_docker else None,
        argv=(*program(cell, now.boot, now.night), *arguments.argv),
        url=cell.section.url,
        port=now.port,
        env=env,
        secrets=cell.keys.secrets,
        mounts=tuple(_mounts(cell, now)) if in_docker else (),
        gpus=_gpus(cell, now),
        cpus=cell.keys.cpus,
        memory_bytes=cell.keys.memory_limit_bytes,
        shm_bytes=cell.keys.shm_bytes,
        host_ipc=in_docker and cell.gpus > 0 and cell.keys.shm_bytes is None,
        labels=now.labels,
        create_s=now.timeouts.create_s,
        start_s=now.timeouts.start_s,
    )


def _gpus(cell: Cell, now: Circumstances) -> int | tuple[str, ...]:
    """Return the GPUs it is handed: a simulated engine none, whatever its cell lists."""
    if cell.simulated:
        return 0
    return now.gpus or (cell.keys.gpus if isinstance(cell.keys.gpus, tuple) else cell.gpus)


def program(cell: Cell, boot: int, night: int = 0) -> tuple[str, ...]:
    """Return what precedes the flags; a simulated engine draws its boots from the cell's name."""
    if cell.simulated:
        drawn: dict[str, Any] = {"boot": boot, "night": night} if night else {"boot": boot}
        again = f" {AGAIN}" if cell.name == AGAIN else ""
        drawn |= {"name": cell.cell_id + again}
        drawn |= {"cold": cell.keys.compile == "none"} if cell.keys.compile else {}
        properties = {**drawn, **(cell.section.simulate or {})}
        python = SIMULATED_PROGRAM[0] if cell.launcher == "docker" else sys.executable
        name = cell.engine.name
        return (python, *SIMULATED_PROGRAM[1:], name, "--simulate", json.dumps(properties))
    if cell.launcher == "docker":
        return cell.engine.image_program
    return cell.section.program or cell.engine.local_program


def models_folder(cache: Cache, environment: Mapping[str, str]) -> Path:
    """Return the Hugging Face home of this machine."""
    default = environment.get("HF_HOME", "~/.cache/huggingface")
    return Path(cache.models or default).expanduser()


def _mounts(cell: Cell, now: Circumstances) -> list[Mount]:
    mounts = [
        Mount(source=Path(source).expanduser().resolve(), target=target)
        for target, source in cell.keys.mounts.items()
    ]
    if cell.simulated:
        return mounts
    if cell.is_local_model:
        source = Path(cell.model).expanduser().resolve()
        mounts.append(Mount(source=source, target=cell.model_in_server))
    elif now.models is not None:
        mounts.append(
            Mount(source=now.models, target=HF_HOME_IN_CONTAINER, read_only=not now.writable)
        )
    if now.compile_folder is not None:
        mounts.append(Mount(source=now.compile_folder, target=CACHE_IN_CONTAINER, read_only=False))
    return mounts


def _cache_env(now: Circumstances) -> dict[str, str]:
    if now.compile_folder is None:
        return _HUB_ENV
    return _HUB_ENV | {name: f"{CACHE_IN_CONTAINER}/{part}" for name, part in _COMPILE_ENV.items()}
