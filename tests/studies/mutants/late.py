"""What changes after a while, in the workloads whose masks or sizes once kept the evidence from looking there."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.studies.mutants.mutant import Mutant, Target, mutants
from tests.studies.mutants.steps import LATE, Step, counted, every_other, freezes, put_back, stepping, tenth

KIND = "late"
CNN, RESNET, TRANSFORMER = "cifar100_cnn", "cifar100_resnet18", "imdb_transformer"
#: A tensor that each workload has.
FROZEN = {CNN: "conv1a/kernel", RESNET: "stem/kernel", TRANSFORMER: "words/table"}


def half_twice(target: Target, step: Step) -> Step:
    """After a while the first half of each batch stands in the place of the second too."""

    def halved(training: Any, batch: Any) -> Any:
        if counted(training) < LATE:
            return step(training, batch)
        inputs, labels = (np.array(array) for array in training.get(batch))
        half = len(labels) // 2
        inputs[half : 2 * half], labels[half : 2 * half] = inputs[:half], labels[:half]
        return step(training, training.put((inputs, labels)))

    return halved


def rounds(target: Target, step: Step) -> Step:
    """After a while the weights are rounded as bfloat16 would keep them."""

    def rounded(training: Any, batch: Any) -> Any:
        if counted(training) < LATE:
            return step(training, batch)
        loss = step(training, batch)
        training.read([loss])
        short = {name: (w.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, w in training.weights().items()}
        put_back(target, training, short)
        return loss

    return rounded


def average(target: Target, step: Step) -> Step:
    """After a while the weights are the mean of what they were and of what a step makes of them."""

    def averaged(training: Any, batch: Any) -> Any:
        if counted(training) < LATE:
            return step(training, batch)
        before = training.weights()
        loss = step(training, batch)
        training.read([loss])
        put_back(target, training, {name: (before[name] + w) / 2 for name, w in training.weights().items()})
        return loss

    return averaged


def no_masks(target: Target, step: Step) -> Step:
    """After a while nothing is dropped any more."""

    def whole(training: Any, batch: Any) -> Any:
        if counted(training) == LATE:
            from importlib import import_module

            import_module(f"suite.worker.frameworks.{target.name}.evidence").without_dropout(training)
        return step(training, batch)

    return whole


MUTANTS: list[Mutant] = []
for workload in (CNN, RESNET, TRANSFORMER):
    MUTANTS += [
        *mutants(KIND, f"half of each batch after {LATE}", workload, stepping(half_twice), "last"),
        *mutants(KIND, f"every other step is empty after {LATE}", workload, stepping(every_other), "last"),
        *mutants(KIND, f"a tenth of the rate after {LATE} steps", workload, stepping(tenth), "last"),
        *mutants(KIND, f"a tensor frozen after {LATE} steps", workload, freezes(FROZEN[workload]), "last"),
        *mutants(KIND, f"weights rounded to bf16 after {LATE}", workload, stepping(rounds), "last"),
        *mutants(KIND, f"weights averaged after {LATE}", workload, stepping(average), "last"),
    ]
for workload in (CNN, TRANSFORMER):
    MUTANTS += mutants(KIND, f"no dropout after {LATE} steps", workload, stepping(no_masks), "last")
