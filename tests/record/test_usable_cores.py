"""How many cores this process may use, by its affinity and by the quotas of its control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from suite.record.parts import environment
from suite.record.parts.environment import core_limit, machine, usable_cores
from suite.worker.loaders import tuned_workers

V1 = "5:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n0::/\n"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Eight cores of sixteen, and control groups in an empty folder."""
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(environment, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(environment, "OWN_GROUPS", tmp_path / "own")


def groups(place: Path, own: str | None, files: dict[str, str]) -> None:
    """Control groups as Linux shows them: those of this process, and the files below where they are mounted."""
    if own is not None:
        (place / "own").write_text(own)
    for name, text in files.items():
        path = place / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "limit", "cores"),
    [
        (None, {}, None, 8),
        ("0::/\n", {"cpu.max": "max 100000\n"}, None, 8),
        ("0::/\n", {"cpu.max": "250000 100000\n"}, 2.5, 2),
        ("0::/\n", {"cpu.max": "50000 100000\n"}, 0.5, 1),
        ("0::/\n", {"cpu.max": "6400000 100000\n"}, 64.0, 8),
        (None, {"cpu.max": "300000 100000\n"}, 3.0, 3),  # the process's own groups are not told
        # Nested groups: the tightest on the way to the root.
        ("0::/a/b\n", {"a/cpu.max": "max 100000", "a/b/cpu.max": "400000 100000"}, 4.0, 4),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "400000 100000"}, 3.0, 3),
        ("0::/a/b\n", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "20000 10000"}, 2.0, 2),
        ("0::/a\n", {"a/cpu.max": "max 100000", "b/cpu.max": "100000 100000", "a/b/cpu.max": "1 1"}, None, 8),
        ("0::/../b\n", {"cpu.max": "500000 100000", "../b/cpu.max": "100000 100000"}, 5.0, 5),  # outside what is shown
        # A container that sees its own group as the root, though the kernel names its place on the host.
        ("0::/docker/123\n", {"cpu.max": "200000 100000"}, 2.0, 2),
        # Version 1, whose controllers are mounted one by one, and version 2 beside it.
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n"}, None, 8),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "350000", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000"}, 3.5, 3),
        (V1, {"cpu,cpuacct/a/cpu.cfs_quota_us": "200000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"}, 2.0, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "600000", "cpu/cpu.cfs_period_us": "100000"}, 6.0, 6),
        (V1, {"cpu/a/b/cpu.cfs_quota_us": "600000"}, None, 8),
        ("3:cpuset:/a\n", {"cpuset/a/cpu.cfs_quota_us": "100000", "cpuset/a/cpu.cfs_period_us": "100000"}, None, 8),
        ("0::/a\n", {"unified/a/cpu.max": "700000 100000"}, 7.0, 7),
        # What cannot be read as a quota is none.
        ("", {"cpu.max": ""}, None, 8),
        ("nonsense\n0::/\n", {"cpu.max": "200000 0"}, None, 8),
    ],
)
def test_the_tightest_of_affinity_and_quotas_counts(
    tmp_path: Path, own: str | None, files: dict[str, str], limit: float | None, cores: int
) -> None:
    groups(tmp_path, own, files)
    assert core_limit() == limit
    assert usable_cores() == cores
    assert machine()["cores"] == 8, "which a quota does not change"


def test_a_system_without_affinity_has_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == 16
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_a_tuned_loader_takes_half_of_the_cores_that_it_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert tuned_workers("cuda") == 4
    groups(tmp_path, "0::/\n", {"cpu.max": "400000 100000"})
    assert tuned_workers("cuda") == 2
    groups(tmp_path, None, {"cpu.max": "50000 100000"})
    assert tuned_workers("cuda") == 1
    assert tuned_workers("cpu") == 0
    groups(tmp_path, None, {"cpu.max": "max 100000"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    assert tuned_workers("cuda") == 8
