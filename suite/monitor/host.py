"""Host metrics: what the worker's process tree uses of the machine, what everything else uses, and what stalls tasks.

Sources of pressure and of throttling by a quota of CPU time: Linux kernel documentation, accounting/psi,
admin-guide/cgroup-v2 (``cpu.stat``), scheduler/sched-bwc (of version 1) and accounting/cgroup-v1.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from suite.record.parts.environment import find_groups, own_cores, quota_of

#: Where Linux says for how long tasks waited for a resource.
PRESSURE = Path("/proc/pressure")
#: The lines that are read of each: time in which some tasks waited, and in which all that were not idle did. For the
#: CPU the second is not defined.
LINES = {"io": ("some", "full"), "memory": ("some", "full"), "cpu": ("some",)}

#: The counter of a control group, by version, and its unit in seconds.
THROTTLED = {"throttled_usec": 1e-6, "throttled_time": 1e-9}


#: Readings that only ever grow, and what their growth per second is called. Disk, network and pressure are the whole
#: machine's. Stolen time is what the host of a virtual machine gave to others while a core had something to do.
COUNTERS = {
    "cpu_s": "cpu_cores",
    "other_cpu_s": "other_cpu_cores",
    "steal_s": "steal_cores",
    "throttled_s": "throttled_cores",
    "context_switches": "context_switches_per_s",
    "disk_read_bytes": "disk_read_bytes_per_s",
    "disk_write_bytes": "disk_write_bytes_per_s",
    "network_bytes": "network_bytes_per_s",
    **{f"{resource}_{kind}_s": f"{resource}_{kind}_share" for resource, kinds in LINES.items() for kind in kinds},
}

#: Times of a core in which it ran nothing, or that another of its times holds too.
NOT_BUSY = ("idle", "iowait", "steal", "guest", "guest_nice")

#: Memory that only the worker uses is counted page by page (5 to 12 ms for 0.9 GB on busy cores): the slowest reading.
USS_EVERY_S = 10.0


class Host:
    """A process, or some, and all their descendants. CPU time is in seconds over all cores, memory in bytes.

    ``absent`` names what the machine does not provide, with the reason. The CPU time of other processes counts on the
    cores that the worker may use, as stolen time does: what runs on the others takes no time from it.
    """

    def __init__(self, pid: int | Sequence[int]) -> None:
        pids = [pid] if isinstance(pid, int) else pid
        self._roots, self._cores = [psutil.Process(each) for each in pids], own_cores()
        self._sources: dict[str, Callable[[], dict[str, float]]] = {
            "disk": _disk,
            "network": _network,
            "pressure": read_pressure,
            "throttling": partial(read_throttled, find_limiting()),
        }
        self.absent: dict[str, str] = {}
        self._uss_s = -USS_EVERY_S
        self._tree: list[psutil.Process] = []
        self._newest = 0
        self._last_seen: dict[int, tuple[float, int]] = {}  # CPU seconds and context switches by process id

    def read(self) -> dict[str, float]:
        """All readings now. Raises `psutil.NoSuchProcess` when the process is gone."""
        rss = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
                times, switches = process.cpu_times(), process.num_ctx_switches()
                self._last_seen[process.pid] = times.user + times.system, switches.voluntary + switches.involuntary
                rss += process.memory_info().rss
        tree = sum(seconds for seconds, _ in self._last_seen.values())
        readings = {
            **read_others(self._cores, tree),
            "cpu_s": tree,
            "context_switches": float(sum(count for _, count in self._last_seen.values())),
            "rss_bytes": float(rss),
        }
        if "steal_s" not in readings:
            self.absent["steal"] = "the system does not count it"
        due = time.monotonic() - self._uss_s >= USS_EVERY_S
        self._uss_s = time.monotonic() if due else self._uss_s
        for name, read in (self._sources | ({"uss": self._uss} if due else {})).items():
            if name not in self.absent:
                try:
                    readings |= read()
                except Exception as error:  # a container may hide them, each system in its own way
                    self.absent[name] = str(error) or type(error).__name__
        return readings

    @property
    def pids(self) -> set[int]:
        """The ids of the processes that were read last."""
        return {process.pid for process in self._tree}

    def tree(self) -> list[psutil.Process]:
        """The process and its descendants, some of which may have ended. Raises `psutil.NoSuchProcess`.

        The search takes longer than all other readings, as it looks at every process of the machine. So it runs only
        when there are new processes.
        """
        newest = _newest()
        if not newest or newest != self._newest:
            self._tree = [each for root in self._roots for each in (root, *root.children(recursive=True))]
            self._newest = newest
        elif not self._roots[0].is_running():
            raise psutil.NoSuchProcess(self._roots[0].pid)
        return self._tree

    def _uss(self) -> dict[str, float]:
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().uss
        return {"uss_bytes": float(total)}


def _newest() -> int:
    """The id of the newest process or thread (Linux: proc_loadavg(5)); 0 where the system does not report it."""
    try:
        return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[4])
    except (OSError, ValueError, IndexError):
        return 0


def read_others(cores: Sequence[int], own_s: float) -> dict[str, float]:
    """CPU seconds that others took of these cores so far, less ``own_s``, and those that the host took, if counted."""
    per_core = psutil.cpu_times(percpu=True)
    # A container may show its own cores alone, counted from zero.
    usable = [per_core[core] for core in cores] if cores[-1] < len(per_core) else per_core
    readings = {"other_cpu_s": sum(map(_busy, usable)) - own_s}
    if hasattr(usable[0], "steal"):
        readings["steal_s"] = sum(times.steal for times in usable)
    return readings


def share_stolen() -> float:
    """The share of the time since the machine started in which its cores had something to do and its host took them."""
    times = psutil.cpu_times()
    stolen = float(getattr(times, "steal", 0.0))
    return stolen / wanted if (wanted := _busy(times) + stolen) else 0.0


def _busy(times: Any) -> float:
    """Seconds in which the core ran something, by its counters; a guest's time is part of a user's."""
    return float(sum(times) - sum(getattr(times, name, 0.0) for name in NOT_BUSY))


def _disk() -> dict[str, float]:
    disk = psutil.disk_io_counters(nowrap=False)  # a counter that goes back has no rate, see `timeline.rates`
    if disk is None:
        raise OSError("the system shows no disk")
    return {"disk_read_bytes": float(disk.read_bytes), "disk_write_bytes": float(disk.write_bytes)}


def _network() -> dict[str, float]:
    network = psutil.net_io_counters(nowrap=False)
    return {"network_bytes": float(network.bytes_recv + network.bytes_sent)}


def read_pressure() -> dict[str, float]:
    """Seconds since the start of the machine, such as ``io_full_s``. Raises `OSError` or `ValueError` without any."""
    counted = {}
    for resource, kinds in LINES.items():
        for line in (PRESSURE / resource).read_text(encoding="ascii").splitlines():
            kind, _, figures = line.partition(" ")
            if kind in kinds:
                counted[f"{resource}_{kind}_s"] = int(figures.rpartition("total=")[2]) / 1e6
    return counted


def find_limiting() -> list[Path]:
    """The counters of the control groups, this process's own and those above, that have a quota of CPU time."""
    limiting = (group for group in dict.fromkeys(find_groups()) if quota_of(group) is not None)
    return [group / "cpu.stat" for group in limiting]


def read_throttled(counters: Sequence[Path]) -> dict[str, float]:
    """Seconds in which a quota kept runnable tasks from their cores. Raises `OSError` or `ValueError` without any."""
    if not counters:
        raise OSError("no control group of this process has a quota")
    return {"throttled_s": sum(_throttled_s(counter) for counter in counters)}


def _throttled_s(counter: Path) -> float:
    for line in counter.read_text(encoding="ascii").splitlines():
        name, _, count = line.partition(" ")
        if name in THROTTLED:
            return int(count) * THROTTLED[name]
    raise OSError("the control group does not count throttling")
