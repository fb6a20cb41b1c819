"""Steps with the gradients that they followed, held against the optimizer's formula."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from suite.record.evidence import Trace
from suite.worker.evidence.fingerprint import movement
from suite.worker.evidence.optimizer import Formula, deviation
from suite.worker.evidence.replay import FP16_STEPS
from suite.worker.evidence.subject import Subject
from workloads.data.dataset import Array
from workloads.spec import Optimizer

#: What counts the steps in a framework's state, by the ends of the names.
COUNTS = re.compile(r"(step|steps|count|iteration|iterations)$")


def explained(
    subject: Subject, training: Any, optimizer: Optimizer, batches: list[tuple[Array, Array]],
    rates: Array | None = None,
) -> tuple[Trace, dict[str, Array], float]:  # fmt: skip
    """Steps on these batches; the weights after them, and how far their movement is off the formula's.

    The formula is computed in float64 from the framework's own gradients. With a table of ``rates`` the first step is
    the first of a training, the last its last, and those between are from its middle: the state's counts of steps are
    moved there.
    """
    formula, losses = Formula(optimizer, rates), []
    planned = 0 if rates is None else len(rates) - FP16_STEPS if len(rates) > FP16_STEPS else len(rates)
    before = expected = {name: array.astype(np.float64) for name, array in training.weights().items()}
    for number, batch in enumerate(batches):
        if rates is not None:
            _move_to(training, formula, number * (planned - 1) // max(1, len(batches) - 1))
        loss, gradients = subject.tools.explained_step(training, training.put(batch))
        losses.append(loss)
        if all(np.isfinite(each).all() for each in gradients.values()):  # in fp16 such a step changes nothing
            expected = formula.step(expected, {name: each.astype(np.float64) for name, each in gradients.items()})
    after = training.weights()
    return Trace(tuple(losses), movement(before, after)), after, deviation(before, after, expected, len(batches))


def _move_to(training: Any, formula: Formula, step: int) -> None:
    """Let the next step be the one of this number, counted from 0."""
    missing = step - formula.steps
    if missing > 0:
        formula.steps += missing
        state = training.checkpoint()
        training.restore(
            {name: np.asarray(each + missing) if COUNTS.search(name) else each for name, each in state.items()}
        )
