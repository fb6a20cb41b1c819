"""What a framework does with the device to itself: products in every precision, and whether its fence waits."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from suite.plan.cell import FRAMEWORKS
from suite.worker.launch.probe import BANDS
from tests.cuda.cells import DEVICE, PROBED, REHEARSAL
from tests.cuda.launcher import Probed

#: Twice the work takes twice the time, within this; on a busy CPU within less.
LINEAR = (1.2, 3.5) if REHEARSAL else (1.7, 2.3)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_sees_the_device(framework: str, probed: Probed, figures: dict[str, Any]) -> None:
    found = probed(framework, "installation")
    figures[f"installation/{framework}"] = found
    assert bool(found["devices"]) == (DEVICE == "cuda")


@pytest.mark.parametrize("precision", PROBED)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_errors_denormals_and_the_peak_of_a_precision(
    framework: str, precision: str, probed: Probed, figures: dict[str, Any]
) -> None:
    found = probed(framework, f"precision-{precision}")
    for name, value in found.items():
        figures[f"probe/{name}/{framework}/{precision}"] = value
    assert found["denormals"] in ("kept", "flushed", "mixed")
    assert found["peak_flops_per_s"] > 0
    for name, error in found["errors"].items():
        assert error in BANDS[precision], f"the {name} is off by {error:.1e}, outside of {BANDS[precision]}"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_fence_waits_for_all_that_was_queued(framework: str, probed: Probed, figures: dict[str, Any]) -> None:
    found = probed(framework, "fence")
    figures[f"fence/{framework}"] = found
    once = [chain for chain in found["chains"] if chain["times"] == 1]
    twice = [chain for chain in found["chains"] if chain["times"] == 2]
    told = {name: _median(twice, name) for name in ("queued_s", "fenced_s", "read_s")}
    ratio = told["fenced_s"] / _median(once, "fenced_s")
    figures[f"fence/{framework}/medians of the longer chain"] = told | {"to_the_shorter": ratio}
    assert LINEAR[0] < ratio < LINEAR[1], "time does not grow with the work"
    assert told["read_s"] < 0.1 * told["fenced_s"], "the result was not there when the fence let go"
    for each in once + twice:
        # Events and the host's clock agree to far better than this.
        assert each["device_s"] is None or each["fenced_s"] > 0.98 * each["device_s"]
    if DEVICE == "cuda":
        assert told["queued_s"] < 0.5 * told["fenced_s"], "without the fence nothing is left out of the time"
    for steps in found["rounds"]:
        assert steps["read_s"] < 0.1 * steps["fenced_s"], "steps were not done when the fence let go"


def _median(chains: list[dict[str, float]], name: str) -> float:
    return median(chain[name] for chain in chains)
