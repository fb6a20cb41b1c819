"""What NVML says of a GPU under load: its energy counter against its power, and GPM."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

import pytest

from suite.monitor.gpu import Gpu
from suite.monitor.timeline import Sample, Span, grown
from suite.plan.cell import FRAMEWORKS
from tests.cuda.cells import REHEARSAL
from tests.cuda.launcher import Launches, NotRunError, lacks

EVERY_S, SETTLING_S = 0.1, 0.0 if REHEARSAL else 2.0  # clocks and power rise for some seconds
SAMPLED_S = 1.0 if REHEARSAL else 6.0  # the counter is to be trusted over at least 5
SIDE = 256 if REHEARSAL else 8192


@pytest.fixture(scope="module")
def loaded(launches: Launches, gpu: Gpu, figures: dict[str, Any]) -> list[Sample]:
    """Readings of the GPU while one framework keeps it busy."""
    framework = next((name for name in FRAMEWORKS if not lacks(name)), "")
    if not framework:
        raise NotRunError("; ".join(map(lacks, FRAMEWORKS)))
    launches.wait()
    launches.left_s(alone=True)
    began = time.monotonic()
    with launches.probing(framework, "probe_load", side=SIDE) as load:
        load.wait_for_answer()
        time.sleep(SETTLING_S)
        samples, until = [], time.monotonic() + SAMPLED_S
        while time.monotonic() < until:
            values = gpu.read()
            samples.append(Sample(time.monotonic(), values))
            time.sleep(EVERY_S)
        assert load.process.poll() is None, load.said
    launches.report.note_launch(f"probe_load {framework}", time.monotonic() - began, True)
    names = dict.fromkeys(name for sample in samples for name in sample.values)
    means = {name: mean(s.values[name] for s in samples if name in s.values) for name in names if name != "energy_j"}
    figures["load"] = {"framework": framework, "side": SIDE, "samples": len(samples), "means": means}
    figures["load/absent"] = dict(gpu.absent)
    return samples


def test_the_energy_counter_is_power_times_time(loaded: list[Sample], gpu: Gpu, figures: dict[str, Any]) -> None:
    for name in ("energy_j", "power_w"):
        if not any(name in sample.values for sample in loaded):
            pytest.skip(f"the GPU gives no {name}: {gpu.absent.get(name)}")
    counted = [sample for sample in loaded if {"energy_j", "power_w"} <= sample.values.keys()]
    seconds = counted[-1].at_s - counted[0].at_s
    grew = grown(counted, "energy_j", [Span(counted[0].at_s, counted[-1].at_s)])
    assert grew is not None, "the counter went back"
    joules, integrated = grew[0], _integrated_j(counted)
    figures["energy"] = {
        "seconds": seconds,
        "samples": len(counted),
        "counter_j": joules,
        "power_times_time_j": integrated,
        "counter_to_power_times_time": joules / integrated,
    }
    assert REHEARSAL or seconds >= 5
    assert 0.7 < joules / integrated < 1.3


def test_gpm_sees_the_load_on_hopper(loaded: list[Sample], gpu: Gpu, figures: dict[str, Any]) -> None:
    capability = gpu.describe()["compute_capability"]
    told = {name: value for name, value in figures["load"]["means"].items() if name.startswith("gpm_")}
    figures["gpm"] = {"compute_capability": capability, "means": told}
    if tuple(map(int, (capability or "0.0").split("."))) < (9, 0):
        pytest.skip(f"the compute capability is {capability}: Hopper (9.0) brought GPM")
    assert "gpm" not in gpu.absent, gpu.absent["gpm"]
    assert told["gpm_sm_utilisation_percent"] > 0


def _integrated_j(samples: Sequence[Sample]) -> float:
    """Power over time, by trapezoids."""
    return sum(
        (now.at_s - before.at_s) * (now.values["power_w"] + before.values["power_w"]) / 2
        for before, now in pairwise(samples)
    )
