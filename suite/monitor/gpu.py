"""NVML's devices, their readings, and on Hopper and later GPM's; only `links` asks NVML for more.

Thin on purpose, so that everything above it can be tested without a GPU. A reading that a device, a driver, a container
or MIG does not provide is absent with its reason, never zero. Names end in their unit.

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

#: Field values of `nvmlDeviceGetFieldValues`, and the members of their union, of which `valueType` names one.
POWER_AVERAGE, POWER_INSTANT, MEMORY_TEMPERATURE = 185, 186, 82
MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

#: Calls that older drivers do not have, and what they have instead.
OLDER = {
    "nvmlDeviceGetTemperatureV": "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksEventReasons": "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetComputeRunningProcesses": "nvmlDeviceGetComputeRunningProcesses_v2",
}

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

#: Readings for which each call of NVML counts over 20 ms, and GPM's readings that replace them where available.
SLOW = {"pcie_tx_bytes_per_s": "gpm_pcie_tx_mib_per_s", "pcie_rx_bytes_per_s": "gpm_pcie_rx_mib_per_s"}

#: Between two of GPM's samples, at least: its counters are refreshed every 100 ms.
GPM_APART_S = 0.1
#: A reading may fail this often in a row before it is given up, since a driver may just be busy.
REFUSALS_MOST = 3

#: Readings that only ever grow, and what their growth per second is called.
COUNTERS = {"energy_j": "power_from_energy_w"}


@dataclass
class Gpu:
    """One visible device. ``absent`` names the readings that it does not provide, with the reason."""

    nvml: Any
    handle: Any
    uuid: str
    name: str
    absent: dict[str, str] = field(default_factory=dict)
    _refused: Counter[str] = field(default_factory=Counter)
    _calls: dict[str, str] = field(default_factory=dict)  # those of `OLDER` that this driver needs
    _gpm: list[Any] = field(default_factory=list)  # two samples, the older first; none without GPM
    _gpm_s: float = 0.0  # when the newer of them was asked for

    def __post_init__(self) -> None:
        try:
            if not self.nvml.nvmlGpmQueryDeviceSupport(self.handle).isSupportedDevice:
                self.absent["gpm"] = "the device has no GPM, which Hopper brought"
            else:
                for _ in range(2):
                    self._gpm.append(self.nvml.nvmlGpmSampleAlloc())
                self._gpm_s = time.monotonic()
                self.nvml.nvmlGpmSampleGet(self.handle, self._gpm[0])
                time.sleep(GPM_APART_S)
                self._read_gpm()  # the device may claim GPM and not provide it
        except Exception as error:  # whatever fails between binding and driver, GPM is then absent
            self.absent["gpm"] = _message(error)
            self.close()
        except BaseException:  # nobody else can free the samples yet
            self.close()
            raise

    def close(self) -> None:
        """Free GPM's samples; all other readings go on."""
        while self._gpm:
            with contextlib.suppress(Exception):
                self.nvml.nvmlGpmSampleFree(self._gpm.pop())

    def ask(self, call: str, *arguments: Any) -> Any:
        """NVML's answer for this device. Whether the driver needs a call of `OLDER` is determined once."""
        try:
            return getattr(self.nvml, self._calls.get(call, call))(self.handle, *arguments)
        except (self.nvml.NVMLError_FunctionNotFound, self.nvml.NVMLLibraryMismatchError):
            if call in self._calls or call not in OLDER:
                raise
        self._calls[call] = OLDER[call]
        return self.ask(call, *arguments)

    def read(self) -> dict[str, float]:
        """All current readings of the device; one that fails `REFUSALS_MOST` in a row is not requested again."""
        values = self._read_gpm()
        for name, reading in READINGS.items():
            if self._gpm and name in SLOW and SLOW[name] not in self.absent:
                self.absent[name] = f"{SLOW[name]} is read in its place, which takes less time"
            elif self._refused[name] < REFUSALS_MOST:
                try:
                    values[name] = _finite(reading(self))
                    self._refused[name] = 0
                    self.absent.pop(name, None)
                except Exception as error:
                    self.absent[name] = _message(error)
                    self._refused[name] += 1
        return values

    def processes(self) -> list[tuple[int, int | None]]:
        """Processes that compute here: id in the host's namespace, and memory in bytes where the driver reports it."""
        processes = self.ask("nvmlDeviceGetComputeRunningProcesses")
        return [(process.pid, process.usedGpuMemory) for process in processes]

    def describe(self) -> dict[str, Any]:
        """Properties that do not change during a run; None where the device does not report one."""
        queries: dict[str, Callable[[], Any]] = {
            "memory_bytes": lambda: int(self.ask("nvmlDeviceGetMemoryInfo").total),
            "compute_capability": lambda: ".".join(map(str, self.ask("nvmlDeviceGetCudaComputeCapability"))),
            "power_limit_w": lambda: self.ask("nvmlDeviceGetEnforcedPowerLimit") / 1e3,
            "persistence_mode": lambda: bool(self.ask("nvmlDeviceGetPersistenceMode")),
            "mig": self._mig,
            "max_sm_clock_mhz": lambda: self.ask("nvmlDeviceGetMaxClockInfo", self.nvml.NVML_CLOCK_SM),
        }
        description: dict[str, Any] = {"name": self.name, "uuid": self.uuid, "gpm": "gpm" not in self.absent}
        for name, query in queries.items():
            description[name] = None
            with contextlib.suppress(Exception):
                description[name] = query()
        return description

    def _mig(self) -> bool:
        """Whether the device is cut into MIG slices; False if it does not support that."""
        try:
            return bool(self.ask("nvmlDeviceGetMigMode")[0])
        except self.nvml.NVMLError_NotSupported:
            return False

    def _read_gpm(self) -> dict[str, float]:
        now_s = time.monotonic()
        if not self._gpm or now_s - self._gpm_s < GPM_APART_S:
            return {}
        before, now = self._gpm
        try:
            self.nvml.nvmlGpmSampleGet(self.handle, now)
            request = self.nvml.c_nvmlGpmMetricsGet_t()
            request.version, request.numMetrics = self.nvml.NVML_GPM_METRICS_GET_VERSION, len(GPM)
            request.sample1, request.sample2 = before, now
            for metric, number in zip(request.metrics, GPM, strict=False):
                metric.metricId = number
            self.nvml.nvmlGpmMetricsGet(request)
        except Exception as error:
            self.absent["gpm"] = _message(error)
            self._refused["gpm"] += 1
            if self._refused["gpm"] == REFUSALS_MOST:
                self.close()
            return {}
        self._gpm, self._gpm_s, self._refused["gpm"] = [now, before], now_s, 0
        self.absent.pop("gpm", None)
        readings: dict[str, float] = {}
        for metric, name in zip(request.metrics, GPM.values(), strict=False):
            if metric.nvmlReturn == 0 and math.isfinite(metric.value):
                readings[name] = float(metric.value)
                self.absent.pop(name, None)
            else:
                self.absent[name] = f"GPM answered {metric.nvmlReturn}"
        return readings


@dataclass(frozen=True)
class Driver:
    """The driver's version and the newest CUDA that it runs, as ``13.0``."""

    version: str
    cuda: str


class NvmlError(RuntimeError):
    """NVML is not available; the message says why."""


@contextlib.contextmanager
def open_nvml(nvml: Any = None) -> Iterator[tuple[Driver, list[Gpu]]]:
    """NVML, and the GPUs that CUDA programs started from here see, in their order. Raises `NvmlError`."""
    if nvml is None:
        try:
            nvml = import_module("pynvml")
        except ImportError:
            raise NvmlError("nvidia-ml-py is not installed") from None
    try:
        nvml.nvmlInit()
    except Exception as error:
        raise NvmlError(f"no NVIDIA driver answers ({_message(error)})") from None
    try:
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        driver = Driver(_text(nvml.nvmlSystemGetDriverVersion()), f"{cuda // 1000}.{cuda % 1000 // 10}")
        handles = _handles(nvml)
        shown = visible(list(handles), os.environ.get("CUDA_VISIBLE_DEVICES"))
        names = {uuid: _text(nvml.nvmlDeviceGetName(handles[uuid])) for uuid in shown}
        with contextlib.ExitStack() as stack:
            gpus = (contextlib.closing(Gpu(nvml, handles[uuid], uuid, name)) for uuid, name in names.items())
            yield driver, [stack.enter_context(gpu) for gpu in gpus]
    except nvml.NVMLError as error:
        raise NvmlError(f"NVML failed ({_message(error)})") from None
    finally:
        with contextlib.suppress(Exception):
            nvml.nvmlShutdown()


def _handles(nvml: Any) -> dict[str, Any]:
    """The devices that this process may use, by UUID. NVML also counts the others, CUDA does not."""
    handles: dict[str, Any] = {}
    count = nvml.nvmlDeviceGetCount()
    for index in range(count):
        with contextlib.suppress(nvml.NVMLError_NoPermission):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            handles[_text(nvml.nvmlDeviceGetUUID(handle))] = handle
    if not handles:
        problem = f"this process may use none of the driver's {count} GPU(s)" if count else "the driver shows no GPU"
        raise NvmlError(problem)
    return handles


def visible(uuids: list[str], chosen: str | None) -> list[str]:
    """The UUIDs of the devices that CUDA shows, in CUDA's order, given ``CUDA_VISIBLE_DEVICES``.

    It holds numbers or (prefixes of) UUIDs and ends at the first that is neither. NVML counts in the order of the bus,
    which is CUDA's with ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` only; with several models, choose by UUID.
    """
    if chosen is None:
        return uuids
    shown: list[str] = []
    for word in filter(None, map(str.strip, chosen.split(","))):
        if word.isdecimal() and int(word) < len(uuids):
            matching = [uuids[int(word)]]
        else:
            matching = [uuid for uuid in uuids if word.startswith(("GPU-", "MIG-")) and uuid.startswith(word)]
        if len(matching) != 1 or matching[0] in shown:
            break
        shown += matching
    return shown


def _field(number: int, unit: float) -> Callable[[Gpu], float]:
    def read(gpu: Gpu) -> float:
        (value,) = gpu.ask("nvmlDeviceGetFieldValues", [number])
        if value.nvmlReturn:
            raise gpu.nvml.NVMLError(value.nvmlReturn)
        if value.valueType >= len(MEMBERS):
            raise ValueError(f"the driver answers in type {value.valueType}, which is not known here")
        return float(getattr(value.value, MEMBERS[value.valueType])) * unit

    return read


READINGS: dict[str, Callable[[Gpu], float]] = {
    "gpu_utilisation_percent": lambda gpu: float(gpu.ask("nvmlDeviceGetUtilizationRates").gpu),
    "memory_utilisation_percent": lambda gpu: float(gpu.ask("nvmlDeviceGetUtilizationRates").memory),
    "memory_used_bytes": lambda gpu: float(gpu.ask("nvmlDeviceGetMemoryInfo").used),
    "power_w": _field(POWER_INSTANT, 1e-3),
    "power_average_w": _field(POWER_AVERAGE, 1e-3),
    "energy_j": lambda gpu: gpu.ask("nvmlDeviceGetTotalEnergyConsumption") * 1e-3,
    "temperature_c": lambda gpu: float(gpu.ask("nvmlDeviceGetTemperatureV", gpu.nvml.NVML_TEMPERATURE_GPU)),
    "memory_temperature_c": _field(MEMORY_TEMPERATURE, 1.0),
    "sm_clock_mhz": lambda gpu: float(gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_SM)),
    "memory_clock_mhz": lambda gpu: float(gpu.ask("nvmlDeviceGetClockInfo", gpu.nvml.NVML_CLOCK_MEM)),
    "clock_events": lambda gpu: float(gpu.ask("nvmlDeviceGetCurrentClocksEventReasons")),
    "pcie_tx_bytes_per_s": lambda gpu: 1e3 * gpu.ask("nvmlDeviceGetPcieThroughput", 0),
    "pcie_rx_bytes_per_s": lambda gpu: 1e3 * gpu.ask("nvmlDeviceGetPcieThroughput", 1),
}


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"the driver said {value}")
    return value


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _message(error: BaseException) -> str:
    return str(error).strip() or type(error).__name__
