"""The kinds that hardly depend on a workload, in those whose own files do not plant them; by one framework each."""

from __future__ import annotations

from typing import Any

from tests.studies.mutants.evaluations import EVALUATION, MODERN, among_five, averaged, evaluated_on, half, unscored
from tests.studies.mutants.inputs import (
    KIND,
    MIDDLE,
    RUN,
    delivered,
    fed,
    first_epoch_again,
    labels_shifted,
    labels_turned,
    planned,
    rest_kept,
    unshuffled,
)
from tests.studies.mutants.models import WEIGHTS, other_seed, rearranged
from tests.studies.mutants.mutant import Mutant, Plant, mutants
from tests.studies.mutants.optimizers import LOSS, OPTIMIZER, loss_times, optimized_with
from tests.studies.mutants.precisions import KIND as PRECISION
from tests.studies.mutants.precisions import everywhere, in_models
from tests.studies.mutants.steps import LOOP, SMALL, half_of_the_batch, previous_batch, stepping

CNN, RESNET, LSTM, TRANSFORMER = "cifar100_cnn", "cifar100_resnet18", "imdb_lstm", "imdb_transformer"
TURNS = (("pytorch",), ("tensorflow",), ("jax",))

#: Kind, name, plant, the evidence that must notice, and the settings of the cell, by workload.
EVERYWHERE: list[tuple[tuple[str, ...], list[tuple[str, str, Plant, str, dict[str, Any]]]]] = [
    (
        (CNN, RESNET, TRANSFORMER),
        [
            (KIND, "not shuffled", planned(unshuffled), "batches", {}),
            (RUN, "the first epoch's plan in all", planned(first_epoch_again), "last", {}),
            (
                RUN,
                f"one batch again and again after {MIDDLE}",
                delivered(lambda number, seen: seen[min(number, MIDDLE)]),
                "last",
                {},
            ),
            (
                RUN,
                f"late by one batch after {MIDDLE}",
                delivered(lambda number, seen: seen[number - (number > MIDDLE)]),
                "last",
                {},
            ),
            # Where a loader asks for a batch's samples by its number.
            (
                RUN,
                "an epoch's last batch filled with the next one's first samples",
                rest_kept,
                "last",
                {"of": TURNS[0]},
            ),
            (LOOP, "trains on the batch before", stepping(previous_batch), "fingerprint", {}),
        ],
    ),
    ((CNN, RESNET), [(OPTIMIZER, "learning rate 1 % higher", optimized_with(1.01), "optimizer", {})]),
    ((RESNET,), [(KIND, "labels of the sample before", fed(labels_shifted), "batches", {})]),
    ((LSTM, TRANSFORMER), [(KIND, "labels of the other class", fed(labels_turned), "batches", {})]),
    (
        (RESNET, TRANSFORMER),
        [
            (LOOP, f"half of a batch larger than {SMALL}", half_of_the_batch(SMALL), "own", {}),
            (LOSS, "half of it", loss_times(0.5), "fingerprint", {}),
            (PRECISION, "bf16 everywhere", everywhere("bfloat16"), "refused", {}),
            (PRECISION, "bf16 above batch 8", in_models("bf16", above=8), "own", {}),
            (EVALUATION, "of half the test split", evaluated_on(half), "evaluation", MODERN),
            (EVALUATION, "of an average of weights", averaged, "scored", MODERN),
            (EVALUATION, "right where it is wrong", unscored, "evaluation", MODERN),
        ],
    ),
    (
        (RESNET,),
        [
            (WEIGHTS, "another seed", rearranged(other_seed(RESNET)), "weights", {}),
            (OPTIMIZER, "momentum .8 for .9", optimized_with(momentum=0.8), "own optimizer", {}),
            (OPTIMIZER, "L2 missing", optimized_with(l2=0.0), "optimizer", {}),
            (EVALUATION, "right where among the best five", among_five, "scored", MODERN),
        ],
    ),
    (
        (TRANSFORMER,),
        [
            (WEIGHTS, "another seed", rearranged(other_seed(TRANSFORMER)), "weights", {}),
            (OPTIMIZER, "beta2 .99", optimized_with(beta2=0.99), "optimizer", {}),
            (OPTIMIZER, "epsilon 1e-5", optimized_with(epsilon=1e-5), "optimizer", {}),
        ],
    ),
]


def _all() -> list[Mutant]:
    planted: list[Mutant] = []
    for workloads, differences in EVERYWHERE:
        for workload in workloads:
            for kind, name, plant, part, settings in differences:
                turn = TURNS[len(planted) % len(TURNS)]
                planted += mutants(kind, name, workload, plant, part, **{"of": turn} | settings)
    return planted


MUTANTS = _all()
