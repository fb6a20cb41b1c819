"""The host's side: what the worker's process tree takes of the machine, and what everything else does."""

from __future__ import annotations

import contextlib

import psutil

#: Readings that only ever grow, and what their growth per second is called. Disk and network are the whole machine's.
COUNTERS = {
    "cpu_s": "cpu_cores",
    "other_cpu_s": "other_cpu_cores",
    "context_switches": "context_switches_per_s",
    "disk_read_bytes": "disk_read_bytes_per_s",
    "disk_write_bytes": "disk_write_bytes_per_s",
    "network_bytes": "network_bytes_per_s",
}


class Host:
    """A process and all its descendants. CPU time is in seconds over all cores, memory in bytes."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._ended: dict[int, tuple[float, int]] = {}  # the last that was seen of each process

    def read(self) -> dict[str, float]:
        """All readings now. Raises `psutil.NoSuchProcess` when the process is gone."""
        rss = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
                times, switches = process.cpu_times(), process.num_ctx_switches()
                self._ended[process.pid] = times.user + times.system, switches.voluntary + switches.involuntary
                rss += process.memory_info().rss
        tree = sum(seconds for seconds, _ in self._ended.values())
        system = psutil.cpu_times()
        busy = sum(system) - system.idle - getattr(system, "iowait", 0.0) - getattr(system, "guest", 0.0)
        found = {
            "cpu_s": tree,
            "other_cpu_s": busy - tree,
            "context_switches": float(sum(count for _, count in self._ended.values())),
            "rss_bytes": float(rss),
        }
        with contextlib.suppress(OSError, AttributeError):  # a container may hide them
            disk, network = psutil.disk_io_counters(), psutil.net_io_counters()
            if disk:
                found |= {"disk_read_bytes": float(disk.read_bytes), "disk_write_bytes": float(disk.write_bytes)}
            found["network_bytes"] = float(network.bytes_recv + network.bytes_sent)
        return found
