"""The layer over NVML and GPM, against a stand-in: units, what is absent, devices that go, and which are watched."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from suite.monitor.gpu import GPM, GPM_APART_S, OLDER, REFUSALS_MOST, NvmlError, open_nvml, visible
from tests.nvml import UUIDS, Nvml, NVMLError


def test_readings_have_their_units_and_what_is_not_given_is_absent_with_its_reason(nvml: Nvml) -> None:
    nvml.broken = {"nvmlDeviceGetClockInfo"}
    with open_nvml(nvml) as (driver, (gpu, _)):
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
    with open_nvml(nvml) as (_, (gpu, _)):
        assert not any(name.startswith("gpm") for name in gpu.read())
        assert "Hopper" in gpu.absent["gpm"]
        assert gpu.describe()["gpm"] is False


@pytest.mark.parametrize("gpm", [False, True])
def test_pcie_is_read_once_from_gpm_where_it_gives_it(nvml: Nvml, gpm: bool) -> None:
    nvml.gpm = gpm
    with open_nvml(nvml) as (_, (gpu, _)):
        time.sleep(GPM_APART_S)
        read = gpu.read()
    assert read.get("pcie_tx_bytes_per_s") == (None if gpm else 7e3)
    assert read.get("gpm_pcie_tx_mib_per_s") == (20.0 if gpm else None)
    assert ("gpm_pcie_tx_mib_per_s is read" in gpu.absent.get("pcie_tx_bytes_per_s", "")) is gpm


def test_a_device_that_disappears_in_mid_run_loses_its_readings_and_nothing_else(nvml: Nvml) -> None:
    with open_nvml(nvml) as (_, (gpu, _)):
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
    with pytest.raises(NvmlError, match="no NVIDIA driver answers"), open_nvml(broken):
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
    with open_nvml(nvml) as (_, gpus):
        assert [(gpu.uuid, gpu.read()["gpu_utilisation_percent"]) for gpu in gpus] == [
            ("GPU-bbbb", 10.0), ("GPU-aaaa", 90.0),
        ]  # fmt: skip


def test_an_older_driver_is_asked_by_the_older_calls_and_for_the_newer_once(nvml: Nvml) -> None:
    nvml.lacking = {*OLDER}
    nvml.events, nvml.pids = 4, [4321]
    with open_nvml(nvml) as (_, (gpu, _)):
        for _ in range(3):
            read = gpu.read()
            assert (read["temperature_c"], read["clock_events"]) == (54.0, 4.0)
            assert gpu.processes() == [(4321, None)]
        assert not gpu.absent.keys() & {"temperature_c", "clock_events"}
    for newer, older in OLDER.items():
        assert (nvml.calls[newer], nvml.calls[older]) == (1, 3)


def test_a_call_that_no_driver_has_under_another_name_is_absent(nvml: Nvml) -> None:
    nvml.lacking = {"nvmlDeviceGetTotalEnergyConsumption", *OLDER, *OLDER.values()}
    with open_nvml(nvml) as (_, (gpu, _)):
        assert not gpu.read().keys() & {"energy_j", "temperature_c", "clock_events"}
        for name in ("energy_j", "temperature_c", "clock_events"):
            assert gpu.absent[name] == "Function Not Found"


@pytest.mark.parametrize("broken", ["", "nvmlGpmSampleGet", "nvmlGpmMetricsGet", "nvmlGpmSampleFree"])
def test_every_gpm_sample_is_freed_before_nvml_ends(nvml: Nvml, broken: str) -> None:
    nvml.broken = {broken}
    with open_nvml(nvml) as (_, gpus):
        assert len(nvml.samples) == (0 if broken == "nvmlGpmSampleGet" else 2 * len(gpus))
    assert (nvml.samples == []) is (broken != "nvmlGpmSampleFree")
    assert nvml.calls["nvmlGpmSampleFree"] == nvml.calls["nvmlGpmSampleAlloc"] == 4
    assert nvml.calls["nvmlShutdown"] == 1
    assert list(nvml.calls)[-1] == "nvmlShutdown"


def test_gpm_samples_are_freed_where_the_second_is_not_given(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_each() -> object:
        if nvml.samples:
            raise NVMLError("Insufficient Memory")
        return nvml.sample()

    monkeypatch.setattr(nvml, "nvmlGpmSampleAlloc", one_each)
    with open_nvml(nvml) as (_, gpus):
        assert nvml.samples == []
        assert [gpu.absent["gpm"] for gpu in gpus] == ["Insufficient Memory"] * 2


def test_gpm_samples_are_freed_where_opening_is_interrupted(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = iter([lambda: None, lambda: pytest.fail("interrupted")])
    monkeypatch.setattr("suite.monitor.gpu.time.sleep", lambda _: next(waits)())
    with pytest.raises(pytest.fail.Exception), open_nvml(nvml):
        pass
    assert nvml.calls["nvmlGpmSampleAlloc"] == 4
    assert nvml.samples == []


def test_gpm_that_is_given_up_frees_its_samples(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock(monkeypatch)
    with open_nvml(nvml) as (_, (gpu, _)):
        nvml.broken = {"nvmlGpmMetricsGet"}
        for _ in range(REFUSALS_MOST):
            assert len(nvml.samples) == 4
            now[0] += 2 * GPM_APART_S
            gpu.read()
        assert len(nvml.samples) == 2, "the other device's"
        assert "pcie_tx_bytes_per_s" in gpu.read(), "NVML's own count is read in GPM's place again"


def test_gpm_s_samples_are_a_tenth_of_a_second_apart_at_least(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock(monkeypatch)
    with open_nvml(nvml) as (_, (gpu, _)):
        now[0] += 2 * GPM_APART_S
        assert any(name.startswith("gpm") for name in gpu.read())
        now[0] += GPM_APART_S - 0.001
        assert not any(name.startswith("gpm") for name in gpu.read())
        now[0] += 0.002
        assert any(name.startswith("gpm") for name in gpu.read())


def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands still but for who waits and for who moves it."""
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += 1.001 * seconds  # nobody wakes too early

    monkeypatch.setattr("suite.monitor.gpu.time.sleep", sleep)
    monkeypatch.setattr("suite.monitor.gpu.time.monotonic", lambda: now[0])
    return now


def test_a_gpu_that_cannot_be_cut_into_slices_is_not(nvml: Nvml, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(_: int) -> None:
        raise NVMLError("GPU is lost")

    nvml.broken = {"nvmlDeviceGetMigMode"}
    with open_nvml(nvml) as (_, (gpu, _)):
        assert gpu.describe()["mig"] is False
        monkeypatch.setattr(nvml, "nvmlDeviceGetMigMode", lost)
        assert gpu.describe()["mig"] is None, "another failure says nothing"
