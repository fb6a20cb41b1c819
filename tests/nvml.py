"""A stand-in for pynvml, whose readings a test may change or break."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

UUIDS = ["GPU-aaaa", "GPU-bbbb"]


class NVMLError(Exception):
    """As pynvml has it."""


class NVMLError_FunctionNotFound(NVMLError):
    """As pynvml has it."""


class NVMLError_NoPermission(NVMLError):
    """As pynvml has it."""


class NVMLError_NotSupported(NVMLError):
    """As pynvml has it."""


class NVMLLibraryMismatchError(Exception):
    """As pynvml has it: raised where an unversioned call leads to one that the driver lacks. No `NVMLError`."""


class Nvml:
    """Two devices, of which the second is busy a ninth as long."""

    NVMLError, NVMLLibraryMismatchError = NVMLError, NVMLLibraryMismatchError
    NVMLError_FunctionNotFound = NVMLError_FunctionNotFound
    NVMLError_NoPermission, NVMLError_NotSupported = NVMLError_NoPermission, NVMLError_NotSupported
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_GPM_METRICS_GET_VERSION = 1, 2, 0, 1

    def __init__(self) -> None:
        self.energy_mj, self.events, self.clock = 0, 0, 1980
        self.broken: set[str] = set()
        self.lacking: set[str] = set()  # calls that the driver does not have
        self.calls: Counter[str] = Counter()
        self.pids: list[int] = []
        self.held: int | None = None
        self.samples: list[object] = []  # of GPM's, those that are not freed
        self.gpm, self.mig, self.persistent = True, False, True
        self.pcie = {"CurrPcieLinkGeneration": 5, "MaxPcieLinkGeneration": 5, "GpuMaxPcieLinkGeneration": 5}
        self.pcie |= {"CurrPcieLinkWidth": 16, "MaxPcieLinkWidth": 16}
        self.nvlinks = [1, 1, 1, 1]  # whether each is up
        self.nodes, self.topology = [0, 0], 30

    def __getattr__(self, name: str) -> Any:
        answers = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: b"580.1",
            "nvmlSystemGetCudaDriverVersion": lambda: 13010,
            "nvmlDeviceGetCount": lambda: len(UUIDS),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda handle: UUIDS[handle].encode(),
            "nvmlDeviceGetName": lambda handle: "A GPU",
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=90 - 80 * handle, memory=40),
            "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=1 << 30, total=1 << 36),
            "nvmlDeviceGetFieldValues": self._field,
            "nvmlDeviceGetTotalEnergyConsumption": lambda handle: self.energy_mj,
            "nvmlDeviceGetTemperatureV": lambda handle, sensor: 55,
            "nvmlDeviceGetTemperature": lambda handle, sensor: 54,
            "nvmlDeviceGetClockInfo": lambda handle, kind: self.clock,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: self.events,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: self.events,
            "nvmlDeviceGetPcieThroughput": lambda handle, way: 7,
            "nvmlDeviceGetComputeRunningProcesses": self._processes,
            "nvmlDeviceGetComputeRunningProcesses_v2": self._processes,
            "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
            "nvmlDeviceGetPersistenceMode": lambda handle: int(self.persistent),
            "nvmlDeviceGetMigMode": lambda handle: [int(self.mig), 0],
            **{f"nvmlDeviceGet{name}": lambda handle, value=value: value for name, value in self.pcie.items()},
            "nvmlDeviceGetNvLinkState": self._nvlink,
            "nvmlDeviceGetMemoryAffinity": lambda handle, words, scope: [1 << self.nodes[handle], *[0] * (words - 1)],
            "nvmlDeviceGetP2PStatus": lambda handle, peer, kind: 0 if kind == 2 and any(self.nvlinks) else 5,
            "nvmlDeviceGetTopologyCommonAncestor": lambda handle, peer: self.topology,
            "nvmlGpmQueryDeviceSupport": lambda handle: SimpleNamespace(isSupportedDevice=self.gpm),
            "nvmlGpmSampleAlloc": self.sample,
            "nvmlGpmSampleFree": self.samples.remove,
            "nvmlGpmSampleGet": lambda handle, sample: None,
            "nvmlGpmMetricsGet": self._gpm,
            "c_nvmlGpmMetricsGet_t": lambda: SimpleNamespace(
                metrics=[SimpleNamespace(metricId=0, value=0.0, nvmlReturn=0) for _ in range(98)]
            ),
        }
        if name not in answers:
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            self.calls[name] += 1
            if name in self.broken:
                raise NVMLError_NotSupported("Not Supported")
            if name in self.lacking:
                mismatched = name == "nvmlDeviceGetComputeRunningProcesses"
                raise (NVMLLibraryMismatchError if mismatched else NVMLError_FunctionNotFound)("Function Not Found")
            return answers[name](*arguments)

        return call

    def _field(self, handle: int, numbers: list[int]) -> list[Any]:
        (number,) = numbers
        value = {186: 350_000, 185: 300_000}.get(number, 0)
        return [SimpleNamespace(nvmlReturn=0 if value else 3, valueType=1, value=SimpleNamespace(uiVal=value))]

    def _nvlink(self, handle: int, link: int) -> int:
        if link >= len(self.nvlinks):
            raise NVMLError("Invalid Argument")
        return self.nvlinks[link]

    def _processes(self, handle: int) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=self.held) for pid in self.pids]

    def sample(self) -> object:
        self.samples.append(sample := object())
        return sample

    def _gpm(self, asked: Any) -> None:
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value, metric.nvmlReturn = float(metric.metricId), 3 if metric.metricId == 5 else 0
