"""GPUs through a scripted NVML: idle, busy, released, throttled, foreign, and not there at all."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from runner.boots import gpu
from runner.boots.gpu import GpuProcess, Gpus, Nvml, Sampler, levels, open_nvml, wait_until_idle

GIB = 2**30


class NVMLError(Exception):
    pass


@dataclass
class Card:
    """One GPU of the fake: each field is a value or a function of the seconds passed."""

    uuid: str
    name: Any = "NVIDIA H200"
    memory: Any = 1 * GIB
    busy: Any = 0
    clock_mhz: Any = 1980
    power_mw: Any = 120_000
    temperature: Any = 40
    reasons: Any = 0
    compute: list[tuple[int, int | None]] = field(default_factory=list)
    graphics: list[tuple[int, int | None]] = field(default_factory=list)


class FakeNvml:
    """Stands in for the module `pynvml`."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *cards: Card, missing: tuple[str, ...] = (), library: bool = True) -> None:
        self.cards = {card.uuid: card for card in cards}
        self.now_s = 0.0
        self._missing = missing
        self._library = library

    def nvmlInit(self) -> None:  # noqa: N802
        if not self._library:
            raise NVMLError("library not found")

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def _value(self, value: Any) -> Any:
        return value(self.now_s) if callable(value) else value

    def __getattr__(self, call: str) -> Callable[..., Any]:
        if call in self._missing:
            return self._unsupported
        answers: dict[str, Callable[..., Any]] = {
            "nvmlSystemGetDriverVersion": lambda: "580.1",
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda index: list(self.cards.values())[index],
            "nvmlDeviceGetHandleByUUID": self._by_uuid,
            "nvmlDeviceGetName": lambda card: card.name,
            "nvmlDeviceGetUUID": lambda card: card.uuid,
            "nvmlDeviceGetMemoryInfo": lambda c: SimpleNamespace(used=self._value(c.memory)),
            "nvmlDeviceGetUtilizationRates": lambda c: SimpleNamespace(gpu=self._value(c.busy)),
            "nvmlDeviceGetClockInfo": lambda card, kind: self._value(card.clock_mhz),
            "nvmlDeviceGetPowerUsage": lambda card: self._value(card.power_mw),
            "nvmlDeviceGetTemperature": lambda card, kind: self._value(card.temperature),
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda c: self._value(c.reasons),
            "nvmlDeviceGetComputeRunningProcesses": lambda c: self._processes(c.compute),
            "nvmlDeviceGetGraphicsRunningProcesses": lambda c: self._processes(c.graphics),
        }
        return answers[call]

    def _by_uuid(self, uuid: str) -> Card:
        if uuid not in self.cards:
            raise NVMLError("not found")
        return self.cards[uuid]

    def _processes(self, entries: list[tuple[int, int | None]]) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in entries]

    def _unsupported(self, *words: object) -> None:
        raise NVMLError("not supported")


def opened(*cards: Card, missing: tuple[str, ...] = ()) -> tuple[FakeNvml, Nvml]:
    fake = FakeNvml(*cards, missing=missing)
    nvml = open_nvml(fake)
    assert nvml is not None
    return fake, nvml


def wait(fake: FakeNvml, nvml: Nvml | None, **more: Any) -> gpu.Idleness:
    known = {"levels_bytes": dict.fromkeys(fake.cards, 1 * GIB), "timeout_s": 30.0, **more}
    return wait_until_idle(nvml, clock=lambda: fake.now_s, sleep=fake.sleep, **known)


def test_gpus_are_told_by_name_uuid_and_driver() -> None:
    _, nvml = opened(Card("GPU-a"), Card("GPU-b", name=b"NVIDIA L4"))
    assert nvml.gpus() == Gpus(
        names=("NVIDIA H200", "NVIDIA L4"), uuids=("GPU-a", "GPU-b"), driver="580.1"
    )


def test_a_machine_without_the_driver_has_no_gpus_and_everything_works() -> None:
    assert open_nvml(FakeNvml(library=False)) is None
    assert levels(None, ["GPU-a"]) == {}
    assert wait_until_idle(None, {}, timeout_s=0).idle
    with Sampler(None, ["GPU-a"]) as sampler:
        pass
    assert sampler.samples == []


def test_a_machine_without_the_package_has_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu.found_gpus() == Gpus()


def test_a_sample_is_in_si_units_and_bytes() -> None:
    _, nvml = opened(Card("GPU-a", busy=87, reasons=0x4 | 0x40 | 0x1))
    look = nvml.look("GPU-a")
    assert (look.memory_used_bytes, look.utilisation_ratio) == (1 * GIB, 0.87)
    assert (look.sm_clock_hz, look.power_w, look.temperature_c) == (1.98e9, 120.0, 40)
    assert look.throttle == ("sw_power_cap", "hw_thermal_slowdown")


def test_what_a_gpu_does_not_report_is_none_and_never_zero() -> None:
    _, nvml = opened(
        Card("GPU-a"),
        missing=(
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "nvmlDeviceGetMemoryInfo",
        ),
    )
    look = nvml.look("GPU-a")
    assert (look.power_w, look.utilisation_ratio, look.throttle) == (None, None, None)
    assert look.memory_used_bytes is None
    assert look.temperature_c == 40


def test_a_gpu_that_fell_off_the_bus_is_all_none() -> None:
    _, nvml = opened()
    look = nvml.look("GPU-gone")
    assert look == gpu.GpuSample(at=look.at, uuid="GPU-gone")
    assert nvml.processes("GPU-gone") == ()


def test_an_idle_gpu_is_idle_after_three_quiet_seconds() -> None:
    fake, nvml = opened(Card("GPU-a"))
    assert wait(fake, nvml).idle
    assert fake.now_s == pytest.approx(3, abs=0.5)


def test_a_gpu_that_works_now_and_then_is_not_idle() -> None:
    fake, nvml = opened(Card("GPU-a", busy=lambda now_s: 50 if int(now_s) % 3 == 2 else 0))
    found = wait(fake, nvml)
    assert not found.idle
    assert fake.now_s == pytest.approx(30, abs=1)


@pytest.mark.parametrize(("used", "idle"), [(1.5 * GIB, True), (1.6 * GIB, False)])
def test_memory_within_the_slack_of_the_level_counts_as_none(used: float, idle: bool) -> None:
    fake, nvml = opened(Card("GPU-a", memory=used))
    found = wait(fake, nvml)
    assert found.idle == idle
    assert ("1.60 GiB in use" in found.reason) == (not idle)


def test_the_wait_goes_on_until_memory_is_released() -> None:
    fake, nvml = opened(Card("GPU-a", memory=lambda now_s: (90 if now_s < 12 else 1) * GIB))
    assert wait(fake, nvml, quiet_s=0).idle
    assert fake.now_s == pytest.approx(12)


def test_a_busy_gpu_with_its_memory_released_is_enough_when_only_that_is_asked() -> None:
    fake, nvml = opened(Card("GPU-a", busy=99))
    assert wait(fake, nvml, quiet_s=0).idle
    assert "busy 99%" in wait(fake, nvml).reason


def test_one_busy_gpu_of_two_keeps_both_from_being_idle() -> None:
    fake, nvml = opened(Card("GPU-a"), Card("GPU-b", busy=30))
    found = wait(fake, nvml)
    assert not found.idle
    assert found.reason.startswith("GPU-b: busy 30%")


def test_a_gpu_without_utilisation_is_judged_by_its_memory() -> None:
    fake, nvml = opened(Card("GPU-a"), missing=("nvmlDeviceGetUtilizationRates",))
    assert wait(fake, nvml).idle


def test_who_holds_memory_is_listed_compute_and_graphics_alike() -> None:
    fake, nvml = opened(Card("GPU-a", compute=[(4_000_001, 5)], graphics=[(4_000_000, None)]))
    assert wait(fake, nvml).processes == (
        GpuProcess(uuid="GPU-a", pid=4_000_000, name="", memory_bytes=None),
        GpuProcess(uuid="GPU-a", pid=4_000_001, name="", memory_bytes=5),
    )


def test_levels_are_the_memory_in_use_by_uuid() -> None:
    _, nvml = opened(Card("GPU-a", memory=7), Card("GPU-b", memory=9))
    assert levels(nvml, ["GPU-b", "GPU-a"]) == {"GPU-a": 7, "GPU-b": 9}


def test_a_sampler_looks_at_each_gpu_from_the_first_moment_and_sees_who_was_there() -> None:
    _, nvml = opened(Card("GPU-a", compute=[(4_000_000, 5)]), Card("GPU-b"))
    with Sampler(nvml, ["GPU-a", "GPU-b"], period_s=3600) as sampler:
        pass
    assert [sample.uuid for sample in sampler.samples] == ["GPU-a", "GPU-b"]
    assert set(sampler.processes) == {4_000_000}


def test_a_sampler_goes_on_looking_until_the_end() -> None:
    _, nvml = opened(Card("GPU-a"))
    with Sampler(nvml, ["GPU-a"], period_s=0.001) as sampler:
        while len(sampler.samples) < 5:
            time.sleep(0.001)
    assert {sample.uuid for sample in sampler.samples} == {"GPU-a"}
