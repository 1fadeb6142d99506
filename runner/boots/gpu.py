"""The GPUs of this machine through NVML, by UUID and never by index.

NVML is optional: without it there are no GPUs to tell of, nothing to wait for and no samples. A
quantity that a GPU does not report is None, never 0.

Units and meanings: https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self

QUIET_S: Final = 3.0
BUSY_RATIO: Final = 0.05
SLACK_BYTES: Final = 512 << 20
POLL_S: Final = 0.5

THROTTLES: Final = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""NVML's nvmlClocksEventReason* bits; the lowest, an idle GPU's low clock, is no throttle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of a machine, in NVML's order; all empty without NVML."""

    names: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    driver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One look at one GPU; the columns of table `gpu`."""

    at: datetime
    uuid: str
    memory_used_bytes: int | None = None
    utilisation_ratio: float | None = None
    sm_clock_hz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that holds memory of a GPU."""

    uuid: str
    pid: int
    name: str
    memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Idleness:
    """Whether GPUs are free.

    Attributes:
        idle: they are, as far as NVML tells.
        reason: what keeps them busy; empty when they are idle.
        processes: who holds their memory now.
    """

    idle: bool
    reason: str = ""
    processes: tuple[GpuProcess, ...] = ()


class Nvml:
    """An open NVML library; `module` is `pynvml` or what stands in for it."""

    def __init__(self, module: Any) -> None:
        self._nvml = module

    def gpus(self) -> Gpus:
        """Return all GPUs of this machine."""
        count = self._ask("nvmlDeviceGetCount") or 0
        handles = [self._ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
        return Gpus(
            names=tuple(_text(self._ask("nvmlDeviceGetName", handle)) for handle in handles),
            uuids=tuple(_text(self._ask("nvmlDeviceGetUUID", handle)) for handle in handles),
            driver=_text(self._ask("nvmlSystemGetDriverVersion")),
        )

    def look(self, uuid: str) -> GpuSample:
        """Return how a GPU does now."""
        handle = self._handle(uuid)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        busy = self._ask("nvmlDeviceGetUtilizationRates", handle)
        clock_mhz = self._ask("nvmlDeviceGetClockInfo", handle, self._nvml.NVML_CLOCK_SM)
        power_mw = self._ask("nvmlDeviceGetPowerUsage", handle)
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return GpuSample(
            at=datetime.now(UTC),
            uuid=uuid,
            memory_used_bytes=None if memory is None else int(memory.used),
            utilisation_ratio=None if busy is None else busy.gpu / 100,
            sm_clock_hz=None if clock_mhz is None else clock_mhz * 1e6,
            power_w=None if power_mw is None else power_mw / 1e3,
            temperature_c=self._ask(
                "nvmlDeviceGetTemperature", handle, self._nvml.NVML_TEMPERATURE_GPU
            ),
            throttle=None if reasons is None else throttles(reasons),
        )

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        """Return who holds memory of a GPU, compute and graphics alike."""
        handle = self._handle(uuid)
        calls = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
        found = {entry.pid: entry for call in calls for entry in self._ask(call, handle) or ()}
        return tuple(
            GpuProcess(
                uuid=uuid, pid=pid, name=_process_name(pid), memory_bytes=entry.usedGpuMemory
            )
            for pid, entry in sorted(found.items())
        )

    def _handle(self, uuid: str) -> Any:
        return self._ask("nvmlDeviceGetHandleByUUID", uuid)

    def _ask(self, call: str, *words: Any) -> Any:
        """Return NVML's answer, None where this GPU or driver has none."""
        if None in words:
            return None
        try:
            return getattr(self._nvml, call)(*words)
        except self._nvml.NVMLError:
            return None


def open_nvml(module: Any = None) -> Nvml | None:
    """Return NVML ready for use, None where nvidia-ml-py or the driver's library is missing."""
    if module is None:
        try:
            module = importlib.import_module("pynvml")
        except ImportError:
            return None
    try:
        module.nvmlInit()
    except module.NVMLError:
        return None
    return Nvml(module)


def found_gpus() -> Gpus:
    """Return the GPUs of this machine; none without NVML."""
    nvml = open_nvml()
    return Gpus() if nvml is None else nvml.gpus()


def throttles(reasons: int) -> tuple[str, ...]:
    """Return the names of the reasons in NVML's bit mask."""
    return tuple(name for bit, name in THROTTLES.items() if reasons & bit)


def levels(nvml: Nvml | None, uuids: Collection[str]) -> dict[str, int]:
    """Return the memory in use of each GPU now, in bytes: what counts as idle later on."""
    looks = [nvml.look(uuid) for uuid in uuids] if nvml is not None else []
    return {
        look.uuid: look.memory_used_bytes for look in looks if look.memory_used_bytes is not None
    }


def wait_until_idle(
    nvml: Nvml | None,
    levels_bytes: Mapping[str, int],
    *,
    timeout_s: float,
    quiet_s: float = QUIET_S,
    slack_bytes: int = SLACK_BYTES,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Idleness:
    """Wait until GPUs are free, for `quiet_s` without a break; return whether they became so.

    Args:
        nvml: the library; without it nothing is known, and the GPUs pass for idle.
        levels_bytes: by UUID, the memory in use that counts as none (see `levels`).
        timeout_s: longest wait.
        quiet_s: how long they must stay so; 0 asks for released memory only.
        slack_bytes: memory above the level that still counts as none.
        clock: monotonic seconds.
        sleep: waits between two looks.
    """
    if nvml is None:
        return Idleness(idle=True)
    deadline_s = clock() + timeout_s
    quiet_since_s: float | None = None
    while True:
        busy = next(_busy(nvml, levels_bytes, slack_bytes, memory_only=quiet_s == 0), "")
        now_s = clock()
        if busy:
            quiet_since_s = None
        elif quiet_since_s is None:
            quiet_since_s = now_s
        is_idle = quiet_since_s is not None and now_s - quiet_since_s >= quiet_s
        if is_idle or now_s >= deadline_s:
            return Idleness(
                idle=is_idle,
                reason="" if is_idle else busy or f"not idle for {quiet_s:g} s yet",
                processes=tuple(
                    process for uuid in levels_bytes for process in nvml.processes(uuid)
                ),
            )
        sleep(POLL_S)


def _busy(
    nvml: Nvml, levels_bytes: Mapping[str, int], slack_bytes: int, *, memory_only: bool
) -> Iterator[str]:
    for uuid, level_bytes in levels_bytes.items():
        look = nvml.look(uuid)
        used_bytes, busy_ratio = look.memory_used_bytes, look.utilisation_ratio
        if used_bytes is not None and used_bytes > level_bytes + slack_bytes:
            yield (
                f"{uuid}: {used_bytes / 2**30:.2f} GiB in use, {level_bytes / 2**30:.2f} GiB at "
                "the start of the run"
            )
        if not memory_only and busy_ratio is not None and busy_ratio >= BUSY_RATIO:
            yield f"{uuid}: busy {busy_ratio:.0%} of the time"


class Sampler:
    """Looks at GPUs once a second in a thread of its own, from `with` to the end of it."""

    def __init__(self, nvml: Nvml | None, uuids: Collection[str], *, period_s: float = 1.0) -> None:
        self.samples: list[GpuSample] = []
        self.processes: dict[int, GpuProcess] = {}
        self._nvml = nvml
        self._uuids = tuple(uuids)
        self._period_s = period_s
        self._over = Event()
        self._thread = Thread(target=self._run, name="gpu", daemon=True)

    def __enter__(self) -> Self:
        if self._nvml is not None and self._uuids:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            for uuid in self._uuids:
                self._look(uuid)
            if self._over.wait(self._period_s):
                return

    def _look(self, uuid: str) -> None:
        if self._nvml is not None:
            self.samples.append(self._nvml.look(uuid))
            self.processes |= {entry.pid: entry for entry in self._nvml.processes(uuid)}


def _process_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
