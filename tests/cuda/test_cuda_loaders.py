"""Every loader delivers the reference batches to the device, byte for byte, over the end of an epoch."""

from __future__ import annotations

from typing import Any

import pytest

from suite.plan.cell import FRAMEWORKS
from tests.cuda import background
from tests.cuda.cells import DEVICE, LOADERS
from tests.cuda.launcher import Answers, Launches
from tests.cuda.probe_loaders import WORKLOADS


@pytest.fixture
def delivered(framework: str, launches: Launches) -> Answers:
    return background.delivered(launches, framework)


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_batches_on_the_device_are_the_reference(
    framework: str, workload: str, kind: str, delivered: Answers, figures: dict[str, Any]
) -> None:
    answer = delivered[f"{workload} {kind}"]
    if "unsupported" in answer:
        pytest.skip(answer["unsupported"])
    assert "error" not in answer, answer["error"]
    found = answer["found"]
    figures[f"loader/{framework}/{workload}/{kind}"] = found
    assert found["differ"] == []
    assert found["batches"] > min(found["epoch"], 8), "no batch of a second epoch"
    if LOADERS[kind].pin_memory is not None:
        assert found["pin_memory"] == LOADERS[kind].pin_memory
    if DEVICE == "cuda":
        assert all("cuda" in place.lower() or "gpu" in place.lower() for place in found["places"]), found["places"]
