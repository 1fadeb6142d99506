"""Keeps an eye on the GPUs of one boot: idle before, sampled under load, released after."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.boots.gpu import GpuProcess, GpuSample, Nvml, Sampler, wait_until_idle
from runner.doubts import Doubt, doubt
from runner.errors import HostError

HEAT = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
)
"""Reasons for a lowered clock that make a figure suspect; a power cap is how the box is set up."""


@dataclass(frozen=True, kw_only=True)
class Guard:
    """The GPUs of one boot.

    Attributes:
        nvml: the library; None knows nothing and waits for nothing.
        levels_bytes: by UUID, the memory in use when the run began.
        exclusive: a foreign process is an error, not a doubt.
        release_s: longest wait for released memory.
    """

    nvml: Nvml | None = None
    levels_bytes: Mapping[str, int] = field(default_factory=dict)
    exclusive: bool = False
    release_s: float = 120

    def before(self) -> list[Doubt]:
        """Wait until the GPUs are idle; return a doubt about who is still on them.

        Raises:
            HostError: they are not idle, and the experiment wants them for itself.
        """
        found = wait_until_idle(self.nvml, self.levels_bytes, timeout_s=self.release_s)
        said = [_said(process) for process in found.processes]
        said += [] if found.idle else [found.reason]
        if said and self.exclusive:
            raise HostError(
                f"the GPU is not idle: {'; '.join(said)}. Stop that process, or leave out"
                " gpu_exclusive"
            )
        return [doubt("gpu_shared", "GPU", "; ".join(said))] if said else []

    def sampler(self) -> Sampler:
        """Return a sampler of these GPUs, to be used with `with`."""
        return Sampler(self.nvml, self.levels_bytes)

    def after(self) -> str | None:
        """Wait until the memory is released; return what still holds it, None when nothing does."""
        found = wait_until_idle(self.nvml, self.levels_bytes, timeout_s=self.release_s, quiet_s=0)
        return None if found.idle else found.reason


def doubts_of(samples: Iterable[GpuSample]) -> list[Doubt]:
    """Return the doubts that samples under load show."""
    reasons = sorted({r for s in samples for r in s.throttle or () if r in HEAT})
    said = f"its clock was lowered under load: {', '.join(reasons)}"
    return [doubt("gpu_throttled", "GPU", said)] if reasons else []


def rows_of(samples: Iterable[GpuSample], keys: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row of `gpu` for each sample."""
    for sample in samples:
        row = dataclasses.asdict(sample)
        yield {**keys, **row, "throttle": list(sample.throttle or ())}


def _said(process: GpuProcess) -> str:
    return f"process {process.pid} ({process.name or 'unknown'}) holds memory of {process.uuid}"
