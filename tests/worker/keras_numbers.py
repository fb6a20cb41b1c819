"""What Keras on one backend computes, and the suite's own loop in that framework, as one JSON line.

A process of its own: Keras has one backend for its lifetime. ``python -m tests.worker.keras_numbers FRAMEWORK``
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

from suite.plan.cell import Cell
from suite.plan.settings.frameworks import variables_of
from suite.worker import interfaces
from tests.frameworks import batches, framework_of, narrow, switches_restored

STEPS, BATCH = 3, 2


def computed(workload: str, framework: str, interface: str, rates: Any = None) -> dict[str, Any]:
    """Losses, gradients and weights of some steps in float64 without dropout, and an evaluation after them."""
    spec = narrow(workload)
    cell = Cell(workload, framework, precision="fp64", batch=BATCH, size="small", interface=interface)
    code = framework_of(framework)
    with switches_restored(framework):
        code.prepare(cell, "cpu", 0)
        # In float32 Keras is made ready, as in a launch whose evidence this is.
        interfaces.prepare(cell.but(precision="fp32"), "cpu", 0)
        made = (code if interfaces.native(cell) else interfaces.load_interface(cell)).Training
        tools, source = interfaces.tools(cell), batches(spec, BATCH)
        with tools.on_host() or nullcontext():
            weights = spec.reference_weights(0)
            training = made(cell, spec, interfaces.module(cell), weights, "cpu", dropout=False, rates=rates)
            steps = [tools.explain_step(training, training.put(source[number])) for number in range(STEPS)]
            losses, right = training.get(training.evaluate(training.put(source[STEPS])))
            return {
                "losses": [loss for loss, _ in steps],
                "gradients": {name: np.asarray(array).tolist() for name, array in steps[0][1].items()},
                "weights": {name: array.tolist() for name, array in training.weights().items()},
                "evaluation": [np.asarray(losses).tolist(), np.asarray(right).astype(int).tolist()],
            }


def main(framework: str) -> None:
    os.environ |= variables_of(Cell("imdb_lstm", framework, interface="keras"))  # after `tests.frameworks` set its own
    found = {}
    for workload in ("imdb_lstm", "cifar100_cnn"):
        for interface in ("native", "keras", "keras-fit"):
            found[f"{workload} {interface}"] = computed(workload, framework, interface)
    print(json.dumps(found))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(sys.argv[1])
