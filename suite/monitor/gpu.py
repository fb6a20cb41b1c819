"""The only file that talks to NVML: devices, their readings, and on Hopper and later GPM's.

Thin on purpose, so that all above it can be tested without a GPU. A reading that a device, a driver, a container or MIG
does not give is absent with its reason; it is never zero. Names end in their unit.

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/ (structures and field numbers).
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

#: Field values of `nvmlDeviceGetFieldValues`.
POWER_AVERAGE, POWER_INSTANT, MEMORY_TEMPERATURE = 185, 186, 82

#: Reasons for a clock below its target, as bits; a power cap is how many GPUs run all day, the others are trouble.
POWER_CAP = 0x4
THROTTLES = {0x8: "HW slowdown", 0x20: "SW thermal", 0x40: "HW thermal", 0x80: "power brake"}

#: GPM's metrics by their number; shares are in percent of the sampling interval, PCIe in MiB/s.
GPM = {
    1: "gpm_graphics_percent",
    2: "gpm_sm_utilisation_percent",
    3: "gpm_sm_occupancy_percent",
    5: "gpm_tensor_percent",
    10: "gpm_dram_bandwidth_percent",
    12: "gpm_fp32_percent",
    13: "gpm_fp16_percent",
    20: "gpm_pcie_tx_mib_per_s",
    21: "gpm_pcie_rx_mib_per_s",
}

#: Readings for which NVML counts over 20 ms in each call, and GPM's that take their place where it gives them.
SLOW = {"pcie_tx_bytes_per_s": "gpm_pcie_tx_mib_per_s", "pcie_rx_bytes_per_s": "gpm_pcie_rx_mib_per_s"}

#: Between two of GPM's samples, at least; NVML wants 100 ms.
GPM_APART_S = 0.1
#: So often on end a reading may fail before it is given up: a driver that is busy once is no driver that cannot.
TIMES = 3

#: Readings that only ever grow, and what their growth per second is called.
COUNTERS = {"energy_j": "power_from_energy_w"}


@dataclass
class Gpu:
    """One visible device. ``absent`` names the readings that it does not give, with the reason."""

    nvml: Any
    handle: Any
    uuid: str
    name: str
    absent: dict[str, str] = field(default_factory=dict)
    _refused: Counter[str] = field(default_factory=Counter)
    _gpm: tuple[Any, Any] | None = None
    _gpm_s: float = 0.0  # when the last of its samples was taken

    def __post_init__(self) -> None:
        try:
            if not self.nvml.nvmlGpmQueryDeviceSupport(self.handle).isSupportedDevice:
                self.absent["gpm"] = "the device has no GPM, which Hopper brought"
            else:
                first, second = self.nvml.nvmlGpmSampleAlloc(), self.nvml.nvmlGpmSampleAlloc()
                self.nvml.nvmlGpmSampleGet(self.handle, first)
                self._gpm, self._gpm_s = (first, second), time.monotonic()
                time.sleep(GPM_APART_S)
                self._read_gpm()  # what the device claims to have is believed when it has given it
        except Exception as error:  # whatever binding and driver say to each other, GPM is then absent
            self.absent["gpm"] = _words(error)

    def read(self) -> dict[str, float]:
        """All readings that the device gives now; one that it refuses `TIMES` on end is not asked for again."""
        found = self._read_gpm()
        for name, reading in READINGS.items():
            if self._gpm and name in SLOW and SLOW[name] not in self.absent:
                self.absent[name] = f"{SLOW[name]} is read in its place, which takes less time"
            elif self._refused[name] < TIMES:
                try:
                    found[name] = _finite(reading(self.nvml, self.handle))
                    self._refused[name] = 0
                    self.absent.pop(name, None)
                except Exception as error:
                    self.absent[name] = _words(error)
                    self._refused[name] += 1
        return found

    def processes(self) -> list[tuple[int, int | None]]:
        """Processes that compute here: id, as the device's own host counts it, and bytes where they are told."""
        held = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        return [(process.pid, process.usedGpuMemory) for process in held]

    def describe(self) -> dict[str, Any]:
        """What does not change during a run; None where the device does not say."""
        nvml, handle = self.nvml, self.handle
        asked: dict[str, Callable[[], Any]] = {
            "memory_bytes": lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            "compute_capability": lambda: ".".join(map(str, nvml.nvmlDeviceGetCudaComputeCapability(handle))),
            "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3,
            "persistence_mode": lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle)),
            "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0]),
            "max_sm_clock_mhz": lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM),
        }
        found: dict[str, Any] = {"name": self.name, "uuid": self.uuid, "gpm": "gpm" not in self.absent}
        for name, ask in asked.items():
            found[name] = None
            with contextlib.suppress(Exception):
                found[name] = ask()
        return found

    def _read_gpm(self) -> dict[str, float]:
        if not self._gpm or time.monotonic() - self._gpm_s < 0.9 * GPM_APART_S:
            return {}
        before, now = self._gpm
        try:
            self.nvml.nvmlGpmSampleGet(self.handle, now)
            asked = self.nvml.c_nvmlGpmMetricsGet_t()
            asked.version, asked.numMetrics = self.nvml.NVML_GPM_METRICS_GET_VERSION, len(GPM)
            asked.sample1, asked.sample2 = before, now
            for metric, number in zip(asked.metrics, GPM, strict=False):
                metric.metricId = number
            self.nvml.nvmlGpmMetricsGet(asked)
        except Exception as error:
            self.absent["gpm"] = _words(error)
            self._refused["gpm"] += 1
            self._gpm = self._gpm if self._refused["gpm"] < TIMES else None
            return {}
        self._gpm, self._gpm_s, self._refused["gpm"] = (now, before), time.monotonic(), 0
        self.absent.pop("gpm", None)
        given: dict[str, float] = {}
        for metric, name in zip(asked.metrics, GPM.values(), strict=False):
            if metric.nvmlReturn == 0 and math.isfinite(metric.value):
                given[name] = float(metric.value)
                self.absent.pop(name, None)
            else:
                self.absent[name] = f"GPM answered {metric.nvmlReturn}"
        return given


@dataclass(frozen=True)
class Driver:
    """The driver's version and the newest CUDA that it runs, as ``13.0``."""

    version: str
    cuda: str


class NvmlError(RuntimeError):
    """There is nothing to ask; the message says why."""


@contextlib.contextmanager
def opened(nvml: Any = None) -> Iterator[tuple[Driver, list[Gpu]]]:
    """NVML, and the GPUs that CUDA programs started from here see, in their order. Raises `NvmlError`."""
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            raise NvmlError("nvidia-ml-py is not installed") from None
    try:
        nvml.nvmlInit()
    except Exception as error:
        raise NvmlError(f"no NVIDIA driver answers ({_words(error)})") from None
    try:
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        driver = Driver(_text(nvml.nvmlSystemGetDriverVersion()), f"{cuda // 1000}.{cuda % 1000 // 10}")
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        named = [(_text(nvml.nvmlDeviceGetUUID(handle)), handle) for handle in handles]
        shown = visible([uuid for uuid, _ in named], os.environ.get("CUDA_VISIBLE_DEVICES"))
        held = dict(named)
        yield driver, [Gpu(nvml, held[uuid], uuid, _text(nvml.nvmlDeviceGetName(held[uuid]))) for uuid in shown]
    except nvml.NVMLError as error:
        raise NvmlError(f"NVML failed ({_words(error)})") from None
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()


def visible(uuids: list[str], chosen: str | None) -> list[str]:
    """Which of NVML's devices CUDA shows, in CUDA's order, by ``CUDA_VISIBLE_DEVICES``.

    It holds numbers or (beginnings of) UUIDs and ends at the first that is none. NVML counts in the order of the bus,
    which is CUDA's with ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` only; with several models, choose by UUID.
    """
    if chosen is None:
        return uuids
    found: list[str] = []
    for word in filter(None, map(str.strip, chosen.split(","))):
        if word.isdecimal() and int(word) < len(uuids):
            matching = [uuids[int(word)]]
        else:
            matching = [uuid for uuid in uuids if word.startswith(("GPU-", "MIG-")) and uuid.startswith(word)]
        if len(matching) != 1 or matching[0] in found:
            break
        found += matching
    return found


def _field(number: int, unit: float) -> Callable[[Any, Any], float]:
    def read(nvml: Any, handle: Any) -> float:
        (value,) = nvml.nvmlDeviceGetFieldValues(handle, [number])
        if value.nvmlReturn:
            raise nvml.NVMLError(value.nvmlReturn)
        return float(value.value.uiVal) * unit

    return read


READINGS: dict[str, Callable[[Any, Any], float]] = {
    "gpu_utilisation_percent": lambda nvml, handle: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
    "memory_utilisation_percent": lambda nvml, handle: float(nvml.nvmlDeviceGetUtilizationRates(handle).memory),
    "memory_used_bytes": lambda nvml, handle: float(nvml.nvmlDeviceGetMemoryInfo(handle).used),
    "power_w": _field(POWER_INSTANT, 1e-3),
    "power_average_w": _field(POWER_AVERAGE, 1e-3),
    "energy_j": lambda nvml, handle: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) * 1e-3,
    "temperature_c": lambda nvml, handle: float(nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU)),
    "memory_temperature_c": _field(MEMORY_TEMPERATURE, 1.0),
    "sm_clock_mhz": lambda nvml, handle: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
    "memory_clock_mhz": lambda nvml, handle: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
    "clock_events": lambda nvml, handle: float(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)),
    "pcie_tx_bytes_per_s": lambda nvml, handle: 1e3 * nvml.nvmlDeviceGetPcieThroughput(handle, 0),
    "pcie_rx_bytes_per_s": lambda nvml, handle: 1e3 * nvml.nvmlDeviceGetPcieThroughput(handle, 1),
}


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"the driver said {value}")
    return value


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _words(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
