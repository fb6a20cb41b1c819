"""What the monitor makes of streams of readings: generated ones, those of a stand-in for NVML, and a real process."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from suite.analysis.records.machines import machine
from suite.monitor import host as hosts
from suite.monitor.gpu import Driver, Gpu, NvmlError, open_nvml
from suite.monitor.host import COUNTERS, Host
from suite.monitor.sampler import Idle, Monitor, idle
from suite.monitor.timeline import Sample, rates
from suite.plan.cell import Cell
from suite.plan.command.common import LATEST
from suite.plan.measuring import Plan
from suite.record.record import Phase, Record, Window
from suite.session import run as runs
from suite.session.launches import machine as here
from suite.session.launches.launch import end_tree
from tests import records
from tests.nvml import Nvml
from tests.processes import wait_until


def watched(nvml: Nvml, host: list[Sample], gpu: list[Sample], before: Idle | None = None) -> Any:
    """A record whose training took from second 10 to 20, and what a monitor notes in it."""
    record = records.record("jax", 0)
    phase = Phase((Window(50, 5.0), Window(50, 5.0)), (), steady=True, spans=((10.0, 20.0),))
    record = replace(record, phases={**record.phases, "train": phase}, flags=(), settings={"device": "cuda"})
    with open_nvml(nvml) as (_, (device, *_)):
        monitor = Monitor(1, 0.0, [device], before)
        monitor.host, monitor.samples[device.uuid] = host, gpu
        return monitor.annotate(record)


def test_a_reading_that_fails_once_comes_back(nvml: Nvml) -> None:
    with open_nvml(nvml) as (_, (gpu, _)):
        nvml.broken = {"nvmlDeviceGetTotalEnergyConsumption"}
        assert "energy_j" not in gpu.read()
        assert gpu.absent["energy_j"] == "Not Supported"
        nvml.broken = set()
        assert "energy_j" in gpu.read()
        assert "energy_j" not in gpu.absent


def test_what_our_processes_hold_is_told_beside_what_the_device_holds(
    nvml: Nvml, spinning: subprocess.Popen[bytes]
) -> None:
    nvml.pids, nvml.held = [spinning.pid], 1 << 28
    with open_nvml(nvml) as (_, gpus), Monitor(spinning.pid, 0.0, gpus) as monitor:
        time.sleep(0.3)
    assert monitor.samples["GPU-aaaa"][0].values["memory_of_ours_bytes"] == 1 << 28


def test_a_sampler_that_breaks_says_so_and_keeps_what_it_saw(
    monkeypatch: pytest.MonkeyPatch, spinning: subprocess.Popen[bytes]
) -> None:
    reads = iter([{"cpu_s": 1.0}])
    monkeypatch.setattr(Host, "read", lambda _: next(reads))
    with Monitor(spinning.pid, 0.0, no_gpu="no driver") as monitor:
        time.sleep(0.8)
    metrics = monitor.annotate(records.record("jax", 0)).metrics
    assert metrics["absent"] == {"gpus": "no driver", "later samples": "StopIteration"}
    assert len(monitor.host) == 1


def named(spelling: str, gpus: list[Gpu], device: str = "cuda", order: str = "PCI_BUS_ID") -> Record:
    """What becomes of the record of a framework that spells its GPU in its own way."""
    environment = {"machine": records.MACHINE | {"gpus": [spelling] if spelling else []}}
    environment |= {"variables": {"CUDA_DEVICE_ORDER": order}}
    record = replace(records.record("jax", 0), environment=environment, settings={"device": device})
    found = Monitor(1, 0.0, gpus).annotate(record)
    assert record.environment["machine"]["gpus"] == ([spelling] if spelling else []), "the record given stays"
    return found


def test_a_gpu_has_one_name_however_frameworks_spell_it(nvml: Nvml) -> None:
    with open_nvml(nvml) as (_, gpus):
        found = [named(spelling, gpus) for spelling in ("A GPU", "a-gpu", "")]
        assert {machine(record) for record in found} == {"Example CPU 3000, 8 cores; A GPU"}
        assert [record.settings.get("device_name") for record in found] == ["A GPU", "a-gpu", None]
        assert named("a-gpu", gpus, device="cpu").environment["machine"]["gpus"] == ["a-gpu"]
        assert named("a-gpu", []).environment["machine"]["gpus"] == ["a-gpu"], "NVML did not answer"
        nvml.mig = True
        assert named("A GPU MIG 1g", gpus).environment["machine"]["gpus"] == ["A GPU MIG 1g"], "NVML names the whole"


def test_a_gpu_that_may_be_another_than_nvml_s_first_keeps_its_name(nvml: Nvml) -> None:
    with open_nvml(nvml) as (_, gpus):
        assert named("a-gpu", gpus, order="FASTEST_FIRST").environment["machine"]["gpus"] == ["A GPU"], "all are alike"
        gpus[1].name = "Another GPU"
        assert named("a-gpu", gpus).environment["machine"]["gpus"] == ["A GPU"]
        assert named("a-gpu", gpus, order="FASTEST_FIRST").environment["machine"]["gpus"] == ["a-gpu"]


def host_stream(others: float) -> list[Sample]:
    values: dict[str, float] = dict.fromkeys(COUNTERS, 0.0)
    return [Sample(float(t), values | {"cpu_s": 1.0 * t, "other_cpu_s": others * t}) for t in range(30)]


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"clock_events": 0.0}, None),
        ({"clock_events": float(0x40)}, "throttled"),
        ({"clock_events": float(0x4)}, "power-capped"),
    ],
)
def test_a_launch_is_flagged_for_what_its_gpu_did(nvml: Nvml, changes: Any, flag: str | None) -> None:
    during = [Sample(float(t), {"sm_clock_mhz": 1980.0, "energy_j": 300.0 * t} | changes) for t in range(30)]
    record = watched(nvml, host_stream(0.0), during)
    assert record.flags == ((flag, *(["disturbed"] if flag == "throttled" else [])) if flag else ())
    (gpu,) = record.metrics["gpus"]
    assert gpu["energy_j_per_sample"] == pytest.approx(300.0 * 10 / (100 * record.effective_batch))
    assert gpu["phases"]["train"]["sm_clock_mhz"]["median"] == 1980.0
    assert type(record).from_json(record.to_json()).metrics["gpus"][0]["uuid"] == "GPU-aaaa"


def test_a_clock_that_moves_during_the_windows_drifts_and_one_that_moves_before_does_not(nvml: Nvml) -> None:
    early = [Sample(float(t), {"sm_clock_mhz": 1980.0 if t > 5 else 1200.0}) for t in range(30)]
    late = [Sample(float(t), {"sm_clock_mhz": 1980.0 if t < 15 else 1800.0}) for t in range(30)]
    once = [Sample(t / 10, {"sm_clock_mhz": 1980.0 if t != 155 else 1200.0}) for t in range(300)]
    assert watched(nvml, host_stream(0.0), early).flags == ()
    assert watched(nvml, host_stream(0.0), late).flags == ("clock-drift", "disturbed")
    assert watched(nvml, host_stream(0.0), once).flags == (), "one sample is no window"


def test_a_busy_machine_contaminates(nvml: Nvml) -> None:
    cores = len(psutil.Process().cpu_affinity() or [0])
    assert watched(nvml, host_stream(0.05 * cores), []).flags == ()
    assert watched(nvml, host_stream(0.2 * cores), []).flags == ("contaminated",)
    assert watched(nvml, host_stream(0.4 * cores), []).flags == ("contaminated", "disturbed")


@pytest.fixture
def spinning() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.alone
def test_a_real_process_is_seen_and_its_neighbour_too(nvml: Nvml, spinning: subprocess.Popen[bytes]) -> None:
    with Monitor(spinning.pid, time.perf_counter()) as monitor:
        time.sleep(1.6)
    cores = rates(monitor.host, COUNTERS)[-1].values["cpu_cores"]
    assert 0.2 < cores < 1.3
    host = Host(spinning.pid)
    first, second = host.read(), host.read()
    assert first["rss_bytes"] >= first["uss_bytes"] > 1 << 20
    assert "uss_bytes" not in second, "it is read rarely"


@pytest.mark.parametrize("told", [True, False])
def test_descendants_are_looked_for_when_there_are_new_processes(monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    newest = [1000 if told else 0]
    monkeypatch.setattr(hosts, "_newest", lambda: newest[0])
    shell = ["sh", "-c", "read line; sleep 60 & wait"]
    process = subprocess.Popen(shell, stdin=subprocess.PIPE, start_new_session=True)
    try:
        host = Host(process.pid)
        assert len(host.tree()) == 1
        assert process.stdin
        process.stdin.write(b"go\n")
        process.stdin.close()
        wait_until(psutil.Process(process.pid).children)
        assert len(host.tree()) == (1 if told else 2), "where nothing is told, all are looked at each time"
        newest[0] += told
        assert len(host.tree()) == 2
    finally:
        end_tree(process, "none-")


@pytest.mark.parametrize(
    ("before", "during", "foreign"),
    [
        ([], ["ours"], False),
        ([], [777001], False),  # ours under another namespace's number
        ([], ["ours", 777001], True),
        ([777001], [777001, 777002], True),
    ],
)
def test_other_processes_on_the_gpu_are_told_from_ours(
    nvml: Nvml, spinning: subprocess.Popen[bytes], before: list[int], during: list[Any], foreign: bool
) -> None:
    with open_nvml(nvml) as (_, gpus):
        nvml.pids = before
        seen = idle(gpus, readings=1, sleep=lambda _: None)
        nvml.pids = [spinning.pid if pid == "ours" else pid for pid in during]
        with Monitor(spinning.pid, 0.0, gpus, seen) as monitor:
            time.sleep(0.3)
    assert seen.power_w == {"GPU-aaaa": 350.0, "GPU-bbbb": 350.0}
    assert bool(monitor.foreign_s) == foreign
    phase = Phase((Window(1, 1e9),), spans=((0.0, 1e9),))
    record = replace(records.record("jax", 0), phases={"train": phase}, flags=(), settings={"device": "cuda"})
    monitor.host.clear()
    assert ({"contaminated", "gpu-shared", "disturbed"} <= {*monitor.annotate(record).flags}) == foreign
    assert monitor.annotate(replace(record, settings={"device": "cpu"})).metrics["gpus"] == []


def test_a_process_that_ends_ends_the_sampling(nvml: Nvml) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with Monitor(process.pid, 0.0) as monitor:
        pass
    assert monitor.host == []


def test_without_a_driver_everything_else_works_and_the_reason_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> Any:
        raise NvmlError("no NVIDIA driver answers")

    monkeypatch.setattr("workloads.data.prepare.prepare", lambda *_, **__: tmp_path)
    monkeypatch.setattr(here, "launch", lambda job, *_, **__: records.record(job.cell.framework, workload="imdb_lstm"))
    monkeypatch.setattr(here, "open_nvml", none)
    said: list[str] = []
    planned = [(Cell("imdb_lstm", framework), 0) for framework in ("jax", "pytorch")]
    run = runs.Run(runs.Settings("smoke", 1, Plan(), journals=tmp_path), planned, said.append, lambda _: None)
    found = [run.launch(*each) for each in planned]
    run.close()
    assert all(record.outcome.ok for record in found)
    assert sum("no NVIDIA driver answers" in line for line in said) == 1


def test_a_run_that_goes_on_after_an_update_says_which_driver_each_launch_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workloads.data.prepare.prepare", lambda *_, **__: tmp_path)
    monkeypatch.setattr(here, "launch", lambda job, *_, **__: records.record(job.cell.framework, workload="imdb_lstm"))
    planned = [(Cell("imdb_lstm", framework), 0) for framework in ("jax", "pytorch")]
    for number, version in enumerate(("580.1", "590.2")):
        told = Driver(version, "13.0"), list[Gpu]()
        monkeypatch.setattr(here, "open_nvml", lambda told=told: contextlib.nullcontext(told))
        settings = runs.Settings("smoke", 1, Plan(), journals=tmp_path, resume=LATEST if number else None)
        run = runs.Run(settings, planned, lambda _: None, lambda _: None)
        found = [run.launch(*each) for each in planned[: number + 1]]
        run.close()
    assert [record.environment["driver"]["version"] for record in found] == ["580.1", "590.2"]
