"""What a host's readings are on a machine whose files of the kernel are written here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from suite.monitor import host
from suite.monitor.host import COUNTERS, Host, share_stolen
from suite.record.parts import environment

Write = Callable[[str, str], None]

#: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice, in steps of 10 ms.
STAT = """\
cpu  400 0 200 9000 100 0 0 300 0 0
cpu0 300 0 100 4000 50 0 0 100 0 0
cpu1 100 0 100 5000 50 0 0 200 0 0
btime 1700000000
"""
PRESSURE = (
    "some avg10=7.89 avg60=2.32 avg300=0.67 total=4000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"
)


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """Writes a file of the machine, which has two cores, this process, pressure and no control group."""
    for name in ("net", "diskstats", "uptime", "meminfo", str(os.getpid())):
        (tmp_path / "proc").mkdir(exist_ok=True)
        (tmp_path / "proc" / name).symlink_to(f"/proc/{name}")
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "proc"))
    monkeypatch.setattr(host, "PRESSURE", tmp_path / "proc" / "pressure")
    monkeypatch.setattr(environment, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(environment, "OWN_GROUPS", tmp_path / "proc" / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)

    def put(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    put("proc/stat", STAT)
    for resource in host.LINES:
        put(f"proc/pressure/{resource}", PRESSURE)
    return put


def test_steal_is_no_time_of_other_processes(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(os.getpid())
    readings = host.read()
    own = readings["cpu_s"]
    assert readings["steal_s"] == 3.0
    assert readings["other_cpu_s"] + own == pytest.approx(6.0)
    assert share_stolen() == pytest.approx(300 / 900)
    write("proc/stat", STAT.replace("cpu1 100 0 100 5000 50 0 0 200", "cpu1 150 0 100 5000 50 0 0 290"))
    later = host.read()
    assert later["steal_s"] - readings["steal_s"] == pytest.approx(0.9)
    assert later["other_cpu_s"] + later["cpu_s"] - 6.0 == pytest.approx(0.5)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1})
    assert Host(os.getpid()).read()["steal_s"] == pytest.approx(2.9), "on the cores that a worker may use"


def test_pressure_is_read_in_seconds(write: Write) -> None:
    readings = Host(os.getpid()).read()
    pressure = {name: value for name, value in readings.items() if "_some_" in name or "_full_" in name}
    assert pressure == {
        "io_some_s": 4.0, "io_full_s": 1.5, "memory_some_s": 4.0, "memory_full_s": 1.5, "cpu_some_s": 4.0,
    }  # fmt: skip
    assert pressure.keys() <= COUNTERS.keys()


@pytest.mark.parametrize("text", [None, "", "some avg10=0.00 total=x\n"])
def test_pressure_that_cannot_be_read_is_absent_with_its_reason(write: Write, tmp_path: Path, text: str | None) -> None:
    if text is None:
        (tmp_path / "proc" / "pressure" / "memory").unlink()
    else:
        write("proc/pressure/memory", text)
    host = Host(os.getpid())
    assert host.read().keys() & {"memory_full_s", "cpu_s"} == {"cpu_s"}
    assert ("pressure" in host.absent) == (text != ""), "an empty file has nothing to say"
    assert host.absent.keys() >= {"throttling"}


@pytest.mark.parametrize(
    ("own", "files", "throttled_s"),
    [
        ("0::/\n", {}, None),
        ("0::/\n", {"cpu.max": "max 100000", "cpu.stat": "usage_usec 9\nthrottled_usec 5000000"}, None),
        # As in a container, which sees its own group as the root, whatever the host calls it.
        ("0::/\n", {"cpu.max": "100000 100000", "cpu.stat": "usage_usec 9\nthrottled_usec 5000000"}, 5.0),
        ("0::/pod/1\n", {"cpu.max": "100000 100000", "cpu.stat": "throttled_usec 5000000"}, 5.0),
        # A quota of a group above throttles too, and each counts its own.
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/cpu.stat": "throttled_usec 2000000\n"}, 2.0),
        ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/cpu.stat": "throttled_usec 2000000",
                       "a/b/cpu.max": "50000 100000", "a/b/cpu.stat": "nr_throttled 3\nthrottled_usec 500000"}, 2.5),
        ("0::/a\n", {"b/cpu.max": "150000 100000", "b/cpu.stat": "throttled_usec 2000000"}, None),
        # Version 1 counts in nanoseconds.
        ("4:cpu,cpuacct:/a\n0::/\n", {"cpu,cpuacct/a/cpu.cfs_quota_us": "150000",
                                      "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
                                      "cpu,cpuacct/a/cpu.stat": "nr_periods 9\nthrottled_time 3000000000"}, 3.0),
        ("0::/\n", {"cpu.max": "100000 100000", "cpu.stat": "usage_usec 9\n"}, None),
        ("0::/\n", {"cpu.max": "100000 100000"}, None),
        ("0::/\n", {"cpu.max": "100000 100000", "cpu.stat": "throttled_usec soon"}, None),
    ],
)  # fmt: skip
def test_throttling_is_that_of_the_groups_with_a_quota(
    write: Write, own: str, files: dict[str, str], throttled_s: float | None
) -> None:
    write("proc/groups", own)
    for name, text in files.items():
        write(f"cgroup/{name}", text)
    host = Host(os.getpid())
    assert host.read().get("throttled_s") == throttled_s
    assert bool(host.absent.get("throttling")) == (throttled_s is None)
    assert host.read().get("throttled_s") == throttled_s


def test_a_system_without_steal_says_so(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    times = psutil.cpu_times(percpu=True)
    without = [type("Times", (tuple,), {"idle": each.idle})((each.user, each.idle)) for each in times]
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu=False: without if percpu else without[0])
    host = Host(os.getpid())
    assert "steal_s" not in host.read()
    assert host.absent["steal"]
    assert share_stolen() == 0.0
