"""The layer over NVML and GPM, against a stand-in: units, what is absent, devices that go, and which are watched."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from suite.monitor.gpu import GPM, GPM_APART_S, NvmlError, opened, visible
from tests.nvml import UUIDS, Nvml


def test_readings_have_their_units_and_what_is_not_given_is_absent_with_its_reason(nvml: Nvml) -> None:
    nvml.broken = {"nvmlDeviceGetClockInfo"}
    with opened(nvml) as (driver, (gpu, _)):
        time.sleep(GPM_APART_S)
        read = gpu.read()
        assert not any(name.startswith("gpm") for name in gpu.read()), "it wants a tenth of a second between samples"
    assert (driver.version, driver.cuda) == ("580.1", "13.1")
    assert (read["power_w"], read["temperature_c"], read["gpu_utilisation_percent"]) == (350.0, 55.0, 90.0)
    assert "memory_temperature_c" not in read
    assert gpu.absent.keys() == {
        "memory_temperature_c", "sm_clock_mhz", "memory_clock_mhz", "gpm_tensor_percent",
        "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s",
    }  # fmt: skip
    assert gpu.absent["gpm_tensor_percent"] == "GPM answered 3"
    assert gpu.absent["sm_clock_mhz"] == "Not Supported"
    assert read["gpm_sm_utilisation_percent"] == 2.0
    assert "gpm_tensor_percent" not in read, "GPM's own return code says that it was not measured"
    assert len([name for name in read if name.startswith("gpm")]) == len(GPM) - 1


def test_a_device_without_gpm_says_so(nvml: Nvml) -> None:
    nvml.gpm = False
    with opened(nvml) as (_, (gpu, _)):
        assert not any(name.startswith("gpm") for name in gpu.read())
        assert "Hopper" in gpu.absent["gpm"]
        assert gpu.describe()["gpm"] is False


@pytest.mark.parametrize("gpm", [False, True])
def test_pcie_is_read_once_from_gpm_where_it_gives_it(nvml: Nvml, gpm: bool) -> None:
    nvml.gpm = gpm
    with opened(nvml) as (_, (gpu, _)):
        time.sleep(GPM_APART_S)
        read = gpu.read()
    assert read.get("pcie_tx_bytes_per_s") == (None if gpm else 7e3)
    assert read.get("gpm_pcie_tx_mib_per_s") == (20.0 if gpm else None)
    assert ("gpm_pcie_tx_mib_per_s is read" in gpu.absent.get("pcie_tx_bytes_per_s", "")) is gpm


def test_a_device_that_disappears_in_mid_run_loses_its_readings_and_nothing_else(nvml: Nvml) -> None:
    with opened(nvml) as (_, (gpu, _)):
        assert "power_w" in gpu.read()
        nvml.broken = set(dir_of_device_calls())
        assert gpu.read() == {}
        told = set(gpu.absent.values())
        assert {words for words in told if "in its place" not in words} <= {"Not Supported", "3", "GPM answered 3"}


def dir_of_device_calls() -> Iterator[str]:
    yield from (
        f"nvmlDeviceGet{name}"
        for name in (
            "UtilizationRates", "MemoryInfo", "FieldValues", "TotalEnergyConsumption", "TemperatureV", "ClockInfo",
            "CurrentClocksEventReasons", "PcieThroughput",
        )
    )  # fmt: skip
    yield "nvmlGpmSampleGet"


def test_without_nvml_there_is_one_line() -> None:
    broken = Nvml()
    broken.broken = {"nvmlInit"}
    with pytest.raises(NvmlError, match="no NVIDIA driver answers"), opened(broken):
        pass


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (None, ["GPU-aaaa", "GPU-bbbb"]),
        ("1,0", ["GPU-bbbb", "GPU-aaaa"]),
        ("1", ["GPU-bbbb"]),
        ("GPU-b", ["GPU-bbbb"]),
        ("GPU-", []),  # ambiguous
        ("0,7,1", ["GPU-aaaa"]),
        ("0,0", ["GPU-aaaa"]),
        ("", []),
        ("-1", []),
        ("MIG-aaaa", []),
    ],
)
def test_devices_are_those_that_cuda_shows_in_its_order(chosen: str | None, found: list[str]) -> None:
    assert visible(UUIDS, chosen) == found


def test_what_is_read_is_of_the_device_that_cuda_puts_first(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    with opened(nvml) as (_, gpus):
        assert [(gpu.uuid, gpu.read()["gpu_utilisation_percent"]) for gpu in gpus] == [
            ("GPU-bbbb", 10.0), ("GPU-aaaa", 90.0),
        ]  # fmt: skip
