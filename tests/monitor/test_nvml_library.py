"""The monitor and the doctor over the real binding, which loads a stand-in for NVIDIA's library instead of a driver's.

The stand-in (`nvml_library.c`) ends a process that uses it wrongly with status 86, so that every test here also says
that structures, handles, buffers and GPM samples are right. Nothing here says how a GPU behaves.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.monitor.gpu import GPM, READINGS, SLOW
from suite.plan.cell import FRAMEWORKS

pytestmark = pytest.mark.drawing

ROOT = Path(__file__).parents[2]
NAME = "NVIDIA Stand-in 80GB"
UUIDS = [f"GPU-0000000{number}-0000-0000-0000-000000000000" for number in range(2)]

#: What stands before each program: all that it uses, and a way to answer.
PREAMBLE = """
import json, os, sys, time
import pynvml
from suite.monitor import gpu, sampler
from suite.monitor.gpu import open_nvml

def answer(value):
    print(json.dumps(value))
"""

#: Two readings, far enough from each other for GPM.
READ = """
with open_nvml() as (driver, gpus):
    readings = []
    for _ in range(2):
        time.sleep(gpu.GPM_APART_S)
        readings.append([each.read() for each in gpus])
    answer({"driver": vars(driver), "readings": readings, "absent": [each.absent for each in gpus],
            "described": [each.describe() for each in gpus], "processes": [each.processes() for each in gpus]})
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_readings_hold_all_that_the_device_gives(run: Run) -> None:
    told = answer(run("-c", PREAMBLE + READ))
    assert told["driver"] == {"version": "580.65.06", "cuda": "13.1"}
    for first, second in zip(*told["readings"], strict=True):
        given = {name for name in GPM.values() if name != "gpm_fp16_percent"}
        assert first.keys() == second.keys() == {*READINGS, *given} - {*SLOW}
        assert (first["power_w"], first["power_average_w"], first["memory_temperature_c"]) == (350.0, 300.0, 61.0)
        assert (first["gpu_utilisation_percent"], first["memory_utilisation_percent"]) == (90.0, 40.0)
        assert (first["temperature_c"], first["memory_used_bytes"], first["clock_events"]) == (55.0, 2.0**30, 4.0)
        assert (first["sm_clock_mhz"], first["memory_clock_mhz"]) == (1755.0, 2619.0)
        assert (first["gpm_sm_utilisation_percent"], first["gpm_pcie_rx_mib_per_s"]) == (2.0, 21.0)
        assert second["energy_j"] - first["energy_j"] > 29.9, "300 W for a tenth of a second at least"
    assert [absent["gpm_fp16_percent"] for absent in told["absent"]] == ["GPM answered 3"] * 2
    assert told["described"][1] == {
        "name": NAME, "uuid": UUIDS[1], "gpm": True, "memory_bytes": 80 * 2**30, "compute_capability": "9.0",
        "power_limit_w": 700.0, "persistence_mode": True, "mig": False, "max_sm_clock_mhz": 1980,
    }  # fmt: skip


def test_the_doctor_shows_the_devices_as_nvml_finds_them(run: Run, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    frameworks = {f"SUITE_PYTHON_{framework.upper()}": str(python) for framework in FRAMEWORKS}
    done = run("-m", "suite.doctor", "--json", FAKE_NVML_PROCESSES="4321", **frameworks)
    assert done.returncode == 1, "no framework answers here"
    told = json.loads(done.stdout)
    assert [(each["name"], each["uuid"]) for each in told["gpus"]] == [(NAME, uuid) for uuid in UUIDS]
    texts = [finding["text"] for finding in told["findings"] if finding["area"] == "GPU"]
    assert "driver 580.65.06, CUDA up to 13.1" in texts
    assert texts.count(f"{NAME}, 80 GiB, compute capability 9.0") == 2
    assert texts.count("persistence mode on, MIG off, GPM answers") == 2
    assert texts.count("1 other process uses it") == 2


LINKS = """
from suite.monitor.links import links, losses
with open_nvml() as (_, gpus):
    answer([links(gpus), [loss.words for loss in losses(gpus)]])
"""


def test_links_are_read_through_the_binding(run: Run) -> None:
    told, lost = answer(run("-c", PREAMBLE + LINKS))
    assert told == [
        *(f"GPU {number}: PCIe 5.0 x16, NUMA node 0, 4 of 4 NVLinks" for number in range(2)),
        "GPU 0 to GPU 1: NVLink",
    ]
    assert lost == []
    code = PREAMBLE + LINKS
    variables = {"FAKE_NVML_DEVICES": "3", "FAKE_NVML_PCIE": "8", "FAKE_NVML_NVLINKS": "0"}
    told, lost = answer(run("-c", code, **variables))
    assert told == [
        *(f"GPU {number}: PCIe 4.0 x8 (at most 5.0 x16), NUMA node {number // 2}" for number in range(3)),
        "GPU 0 to GPU 1: through the host bridge",
        "GPU 0 to GPU 2: through two NUMA nodes",
        "GPU 1 to GPU 2: through two NUMA nodes",
    ]
    assert sum("8 of 16 lanes" in words for words in lost) == 3
    assert sum("two NUMA nodes, so" in words for words in lost) == 2
    assert answer(run("-c", code, FAKE_NVML_NVLINKS="3"))[1] == [f"GPU {n}: 1 of 4 NVLinks are down" for n in range(2)]


WATCH = """
import subprocess
with open_nvml() as (_, gpus):
    before = sampler.idle(gpus, readings=3)
    process = subprocess.Popen(["sleep", "1"])
    os.environ["FAKE_NVML_PROCESSES"] = str(process.pid)
    with sampler.Monitor(process.pid, time.perf_counter(), gpus, before) as monitor:
        process.wait()
        time.sleep(0.2)
    samples = [[dict(sample.values) for sample in monitor.samples[each.uuid]] for each in gpus]
    answer({"idle": before.power_w, "samples": samples, "absent": monitor.absent, "foreign": monitor.foreign_s})
"""


def test_the_monitor_of_a_short_process_has_power_energy_gpm_and_its_memory(run: Run) -> None:
    # The binding reads the environment through the C library, which os.environ writes to.
    told = answer(run("-c", PREAMBLE + WATCH))
    assert told["idle"] == dict.fromkeys(UUIDS, 350.0)
    assert "later samples" not in told["absent"]
    assert told["foreign"] == []
    for samples in told["samples"]:
        assert 3 <= len(samples) <= 14, "one each tenth of a second, fewer on a busy machine"
        assert all(values["power_w"] == 350.0 for values in samples)
        energy = [values["energy_j"] for values in samples]
        assert energy == sorted(energy)
        assert 60.0 < energy[-1] - energy[0] < 1200.0, "about 300 W for a second"
        assert sum("gpm_sm_utilisation_percent" in values for values in samples) >= 2
        assert samples[0]["memory_of_ours_bytes"] == 2.0**28


def test_an_older_driver_gives_what_it_has_under_other_names(run: Run) -> None:
    told = answer(run("-c", PREAMBLE + READ, driver="older", FAKE_NVML_PROCESSES="4321,4322"))
    for readings in told["readings"]:
        assert [(each["temperature_c"], each["clock_events"]) for each in readings] == [(54.0, 4.0)] * 2
    assert told["processes"] == [[[4321, 2**28], [4322, 2**28]]] * 2
    assert all("temperature_c" not in absent and "clock_events" not in absent for absent in told["absent"])


def test_a_field_is_read_as_the_type_in_which_it_is_told(run: Run) -> None:
    code = """
with open_nvml() as (_, (device, *_)):
    told = []
    for kind in range(8):
        os.environ["FAKE_NVML_TYPE"] = str(kind)
        read = device.read()
        told.append([read.get("power_w"), read.get("memory_temperature_c")])
    answer([told, device.absent["power_w"]])
"""
    told, reason = answer(run("-c", PREAMBLE + code))
    assert [degrees for _, degrees in told] == [61.0] * 7 + [None]
    assert [watts for watts, _ in told[:6]] == [350.0] * 6, "350000 mW are more than the seventh type holds"
    assert "type 7" in reason


def test_a_gpu_in_slices_has_no_utilisation_and_no_gpm(run: Run) -> None:
    told = answer(run("-c", PREAMBLE + READ, FAKE_NVML_MIG="on"))
    for reading, absent, described in zip(told["readings"][1], told["absent"], told["described"], strict=True):
        assert not [name for name in reading if name.startswith("gpm") or "utilisation" in name]
        assert absent["gpm"] == absent["gpu_utilisation_percent"] == "Not Supported"
        assert described["mig"] is True


def test_devices_that_this_process_may_not_use_are_left_out(run: Run) -> None:
    code = "with open_nvml() as (_, gpus): answer([each.uuid for each in gpus])"
    assert answer(run("-c", PREAMBLE + code, FAKE_NVML_FORBIDDEN="0")) == [UUIDS[1]]
    # CUDA counts those that it may use.
    assert answer(run("-c", PREAMBLE + code, FAKE_NVML_FORBIDDEN="0", CUDA_VISIBLE_DEVICES="0")) == [UUIDS[1]]
    for variables, words in (
        ({"FAKE_NVML_DEVICES": "0"}, "the driver shows no GPU"),
        ({"FAKE_NVML_DEVICES": "1", "FAKE_NVML_FORBIDDEN": "0"}, "this process may use none of the driver's 1 GPU(s)"),
    ):
        done = run("-c", PREAMBLE + code, **variables)
        assert f"NvmlError: {words}" in done.stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("pynvml.nvmlShutdown(); pynvml.nvmlDeviceGetCount()", "before nvmlInit or after nvmlShutdown"),
        ("pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2 + 1)", "structure version"),
        ("pynvml.nvmlGpmSampleFree(sample); pynvml.nvmlGpmSampleFree(sample)", "after it was freed"),
        ("pynvml.nvmlShutdown()", "1 of 1 GPM samples were never freed"),
    ],
)
def test_the_stand_in_forgives_nothing(run: Run, code: str, words: str) -> None:
    begin = "pynvml.nvmlInit(); handle = pynvml.nvmlDeviceGetHandleByIndex(0)\n"
    begin += "" if code.startswith("pynvml.nvmlShutdown();") else "sample = pynvml.nvmlGpmSampleAlloc()\n"
    done = run("-c", PREAMBLE + begin + code)
    assert done.returncode == 86
    assert words in done.stderr
