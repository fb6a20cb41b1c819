"""Gradient checkpointing changes what is kept, and nothing else: every gradient is equal to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.plan.cell import Cell
from tests.frameworks import batches, each_framework, framework_of, module, narrow, needs_frameworks, switches_restored

pytestmark = [needs_frameworks, pytest.mark.usefixtures("unoptimized")]

each_of_blocks = pytest.mark.parametrize("workload", ["cifar100_cnn", "cifar100_resnet18"])
STEPS = 3


def steps(workload: str, framework: str, checkpointing: str, precision: str = "fp32") -> tuple[list[float], Any]:
    """The losses of some steps with dropout from one seed, the state after them, and the loss of an evaluation."""
    spec = narrow(workload)
    cell = Cell(workload, framework, precision, 8, size="small", checkpointing=checkpointing)
    code, source = framework_of(framework), batches(spec, 8)
    with switches_restored(framework):
        code.prepare(cell, "cpu", 5)
        running = code.Training(cell, spec, module(workload, framework), spec.reference_weights(0), "cpu", seed=5)
        losses = running.read([running.step(running.put(source[number])) for number in range(STEPS)])
        evaluated, _ = running.get(running.evaluate(running.put(source[STEPS])))
        return losses, {**running.checkpoint(), "evaluated": evaluated}


@each_framework
@each_of_blocks
@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64"])
def test_steps_with_dropout_are_equal_to_the_last_bit(workload: str, framework: str, precision: str) -> None:
    """Weights, the optimizer's buffers, running statistics and random states: so a block is not run twice in effect."""
    usual, state = steps(workload, framework, "off", precision)
    losses, found = steps(workload, framework, "on", precision)
    assert losses == usual
    assert len(found) == len(state)
    for (name, array), expected in zip(found.items(), state.values(), strict=True):
        assert np.array_equal(array, expected), name
