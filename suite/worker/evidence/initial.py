"""Weights as a workload's own builder draws them in a framework, before the suite's are loaded. Knows no framework."""

from __future__ import annotations

import traceback
from types import ModuleType
from typing import Any

import numpy as np

from suite.plan.cell import Cell
from suite.record.text import clean
from workloads.data.dataset import Array
from workloads.faults import FAULTS
from workloads.spec import WorkloadSpec

#: A model is built so often at most, until each tensor with draws has so many numbers; and so many of one are kept.
BUILDS, NUMBERS_LEAST, NUMBERS_MOST = 8, 1_000, 20_000


def draw(tools: ModuleType, cell: Cell, spec: WorkloadSpec, module: ModuleType, inputs: Array) -> dict[str, Any]:
    """The numbers of each canonical tensor over several seeds, by ``initial/NAME``; none where a builder raises."""
    drawn: dict[str, list[Array]] = {}
    try:
        with tools.on_host():
            draw_by = tools.initial(cell, spec, module, inputs)
            for seed in range(BUILDS):
                for name, array in draw_by(seed).items():
                    numbers = np.asarray(array, np.float64).ravel()
                    drawn.setdefault(name, []).append(numbers[:: -(-numbers.size // NUMBERS_MOST) or 1])
                if all(len(each) * each[0].size >= NUMBERS_LEAST or np.ptp(each) == 0 for each in drawn.values()):
                    break
    except FAULTS as error:  # what draws no weights can be proved all the same
        traceback.print_exc()
        return {"undrawn": clean(f"{type(error).__name__}: {error}", 300)}
    return {f"initial/{name}": np.concatenate(each)[:NUMBERS_MOST] for name, each in drawn.items()}
