"""Memory: the allocator's peak says what training took, and a batch that does not fit is a result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.identity.tolerances import RECOMPUTED
from suite.plan.cell import ALLOCATORS, FRAMEWORKS, Cell, Loader
from suite.record.job import Job
from tests.cuda.cells import (
    ABSURD_BATCH,
    DEVICE,
    GROWN_OF,
    LEFT_BYTES,
    PLAN,
    REHEARSAL,
    TEST,
    TRAIN,
    allocated,
    checkpointed,
    grown,
)
from tests.cuda.launcher import Launched, Launches, lacks
from workloads.data import cache, synthetic
from workloads.spec import Numbers

WEIGHTS, GRADIENTS, MOMENTUM = 1, 1, 1
FLOAT_BYTES = {Numbers().weights: 4, "float64": 8}
LIMIT_BYTES = 2 << 30  # of a rehearsal, in which a batch of all samples does not fit


@pytest.mark.parametrize("cells", [grown(framework) for framework in GROWN_OF], ids=GROWN_OF)
def test_the_allocators_peak_holds_the_model_and_grows_with_the_batch(
    cells: tuple[Cell, ...], launched: Launched, figures: dict[str, Any]
) -> None:
    records = [launched(cell) for cell in cells]
    for record in records:
        figures[f"memory/{record.cell.id}"] = record.memory
    if DEVICE == "cpu":
        pytest.skip("a CPU has no allocator that counts its peak")
    model = records[0].workload["parameters"] * FLOAT_BYTES[records[0].settings["weights_type"]]
    peaks = [record.memory["allocator_peak_bytes"] for record in records]
    assert peaks[0] > (WEIGHTS + GRADIENTS + MOMENTUM) * model
    assert peaks[1] > peaks[0]


@pytest.mark.parametrize("allocator", ALLOCATORS[1:])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_allocator_asked_for_is_in_force(
    framework: str, allocator: str, launched: Launched, figures: dict[str, Any]
) -> None:
    cell = allocated(framework, allocator)
    record = launched(cell)
    figures[f"allocator/{cell.id}"] = {"memory": record.memory, "settings": record.settings["allocator"]}
    assert record.settings["allocator"]["in_force"] == allocator


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_checkpointing_saves_memory_and_moves_no_gradient(
    framework: str, launched: Launched, figures: dict[str, Any]
) -> None:
    usual, record = (launched(cell) for cell in checkpointed(framework))
    assert record.identity
    found = record.identity.recomputed
    figures[f"checkpointing/{framework}"] = {
        "evidence": found and vars(found), "memory": record.memory, "usual": usual.memory
    }  # fmt: skip
    assert found
    assert found.kept_bytes < found.usual_bytes
    assert found.gradient < RECOMPUTED
    if DEVICE != "cpu":
        assert record.memory["allocator_peak_bytes"] < usual.memory["allocator_peak_bytes"]


@pytest.fixture(scope="module")
def held(launches: Launches, figures: dict[str, Any]) -> Iterator[None]:
    """Another process holds most of the device's memory; a rehearsal limits what the worker may allocate instead."""
    if REHEARSAL:
        yield
        return
    framework = next((name for name in FRAMEWORKS if not lacks(name)), FRAMEWORKS[0])  # only its interpreter is used
    launches.wait()
    launches.left_s(alone=True)
    with launches.probing(framework, "probe_hold", leave_bytes=LEFT_BYTES) as running:
        figures["out_of_memory/held"] = running.wait_for_answer()["held"]["found"]
        yield


@pytest.mark.usefixtures("held")
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_batch_that_does_not_fit_ends_as_out_of_memory(
    framework: str, launches: Launches, tmp_path: Path, figures: dict[str, Any]
) -> None:
    if REHEARSAL and framework == "tensorflow":
        pytest.skip("TensorFlow ends by a signal where the memory of a CPU is limited")
    batch, limit = (TRAIN, LIMIT_BYTES) if REHEARSAL else (ABSURD_BATCH, None)
    cell = Cell("cifar100_cnn", framework, batch=batch, loader=Loader("resident"))
    twin = cache.write(synthetic.generate("cifar100", batch, TEST), tmp_path)
    record = launches.alone(Job(cell, str(twin), device=DEVICE, plan=PLAN, memory_limit=limit), f"{cell.id} absurd")
    figures[f"out_of_memory/{framework}"] = vars(record.outcome) | {"batch": batch}
    assert record.outcome.status == "out-of-memory", [record.outcome, *record.log]
    assert f"batch {batch} does not fit" in record.outcome.reason
