"""What only a training to its end shows: evaluation, batch normalisation's statistics, the schedule of a recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tests.studies.mutants.dropout import in_evaluation
from tests.studies.mutants.mutant import Plant, Target, mutants
from workloads.data.dataset import DataSet, Split

CNN, RESNET, LSTM = "cifar100_cnn", "cifar100_resnet18", "imdb_lstm"


def evaluated_on(change: Any) -> Plant:
    """The split that is evaluated is another."""
    from suite.worker.launch import training

    def plant(target: Target) -> None:
        def changed(batches: Any) -> Any:
            return lambda data, *rest: batches(replace(data, test=change(data)), *rest)

        target.wrap(training, "evaluation_batches", changed)

    return plant


def half(data: DataSet) -> Split:
    middle = len(data.test) // 2
    return Split(data.test.inputs[:middle], data.test.labels[:middle])


def training_split(data: DataSet) -> Split:
    return data.train


def normalised_with(**changes: float) -> Plant:
    """Batch normalisation with another constant of the workload's file."""

    def plant(target: Target) -> None:
        for name, value in changes.items():
            target.patch.setattr(target.workload, name, value)

    return plant


def biased(target: Target) -> None:
    """The running variance is the biased one."""
    from torch import nn

    def counted(forward: Any) -> Any:
        def normalised(self: Any, x: Any) -> Any:
            before = self.running_var.clone()
            y = forward(self, x)
            if self.training:
                count = x.numel() / x.shape[1]
                self.running_var = self.running_var - (self.running_var - (1 - self.momentum) * before) / count
            return y

        return normalised

    target.wrap(nn.BatchNorm2d, "forward", counted)


def statistics_stay(target: Target) -> None:
    """The running statistics stay as they started."""
    if target.name == "pytorch":
        normalised_with(MOMENTUM=0.0)(target)
    else:

        def kept(loss: Any) -> Any:
            return lambda model, weights, statistics, *rest: (loss(model, weights, statistics, *rest)[0], statistics)

        target.wrap(target.workload, "loss", kept)


def statistics_in_training(target: Target) -> None:
    """Training normalises by the running statistics, as evaluation does."""

    def frozen(call: Any) -> Any:
        return lambda self, x, training=None: call(self, x, training=False)

    target.wrap(target.workload.FusedBatchNormalization, "call", frozen)


def padded_on_one_side(target: Target) -> None:
    """Convolutions with a stride pad as "same" does: on one side only."""
    import flax.linen as nn

    def convolution(outputs: int, kernel: Any, stride: Any, padding: int, **settings: Any) -> Any:
        return nn.Conv(outputs, kernel, stride, "SAME" if max(stride) > 1 else padding, **settings)

    target.overlay("nn", Conv=convolution)


def rates(change: Any) -> Plant:
    """The framework trains by another table of rates."""

    def plant(target: Target) -> None:
        def made(init: Any) -> Any:
            def initialised(self: Any, *arguments: Any, rates: Any = None, **keywords: Any) -> None:
                init(self, *arguments, rates=rates if rates is None else change(rates), **keywords)

            return initialised

        target.wrap(target.framework.Training, "__init__", made)

    return plant


def unscored(target: Target) -> None:
    """The answer is taken for right where it is wrong."""

    def scored(scores: Any) -> Any:
        def inverted(*arguments: Any) -> Any:
            losses, right = scores(*arguments)
            return losses, ~right

        return inverted

    target.wrap(target.workload, "scores", scored)


def averaged(target: Target) -> None:
    """What is evaluated is the average of the states after each step."""

    def collected(step: Any) -> Any:
        def taken(self: Any, batch: Any) -> Any:
            pending = step(self, batch)
            states = self.__dict__.setdefault("states", [])
            states.append({name: array.copy() for name, array in self.checkpoint().items()})
            return pending

        return taken

    def of_average(evaluate: Any) -> Any:
        def evaluated(self: Any, batch: Any) -> Any:
            if not (states := self.__dict__.get("states")):
                return evaluate(self, batch)
            now = {name: array.copy() for name, array in self.checkpoint().items()}
            floats = [name for name, array in now.items() if array.dtype.kind == "f"]
            self.restore(now | {name: np.mean([each[name] for each in states], 0, now[name].dtype) for name in floats})
            found = evaluate(self, batch)
            self.restore(now)
            return found

        return evaluated

    target.wrap(target.framework.Training, "step", collected)
    target.wrap(target.framework.Training, "evaluate", of_average)


def among_five(target: Target) -> None:
    """A label among the best five is right."""
    if target.name == "pytorch":

        def inner(scores: Any) -> Any:
            def scored(model: Any, images: Any, labels: Any) -> Any:
                best = model(images).topk(5).indices
                return scores(model, images, labels)[0], (best == labels[:, None]).any(1)

            return scored

    elif target.name == "tensorflow":
        import tensorflow as tf

        def inner(scores: Any) -> Any:
            def scored(model: Any, images: Any, labels: Any) -> Any:
                logits = tf.cast(model(images, training=False), tf.float32)
                return scores(model, images, labels)[0], tf.math.in_top_k(labels, logits, 5)

            return scored

    else:
        import jax

        def inner(scores: Any) -> Any:
            def scored(model: Any, weights: Any, statistics: Any, images: Any, labels: Any) -> Any:
                logits = target.workload.logits(model, weights, statistics, images)
                best = jax.lax.top_k(logits, 5)[1]
                found = scores(model, weights, statistics, images, labels)
                return found[0], (best == labels[:, None]).any(1)

            return scored

    target.wrap(target.workload, "scores", inner)


EVALUATION, STATISTICS, RECIPE = "evaluation", "batch normalisation", "recipe"
STUDY, MODERN = {"recipe": "study"}, {"recipe": "modern"}
MUTANTS = [
    *mutants(EVALUATION, "with dropout", CNN, in_evaluation, "evaluation", **STUDY),
    *mutants(EVALUATION, "of half the test split", LSTM, evaluated_on(half), "evaluation", of=["pytorch"], **MODERN),
    *mutants(
        EVALUATION,
        "of the training split",
        LSTM,
        evaluated_on(training_split),
        "evaluation",
        of=["tensorflow"],
        **MODERN,
    ),
    *mutants(EVALUATION, "right where it is wrong", LSTM, unscored, "evaluation", of=["pytorch"], **MODERN),
    *mutants(EVALUATION, "of an average of weights", CNN, averaged, "scored", **STUDY),
    *mutants(EVALUATION, "of an average of weights", LSTM, averaged, "scored", **MODERN),
    *mutants(EVALUATION, "right where among the best five", CNN, among_five, "scored", **STUDY),
    *mutants(STATISTICS, "epsilon 1e-3", RESNET, normalised_with(EPSILON=1e-3), "fingerprint", of=["tensorflow"]),
    *mutants(
        STATISTICS,
        "momentum for its complement",
        RESNET,
        normalised_with(MOMENTUM=0.9),
        "evaluation",
        of=["pytorch", "tensorflow"],
        **MODERN,
    ),
    *mutants(STATISTICS, "biased variance", RESNET, biased, "evaluation", of=["pytorch"], **MODERN),
    *mutants(STATISTICS, "never updated", RESNET, statistics_stay, "evaluation", of=["pytorch"], **MODERN),
    *mutants(STATISTICS, "frozen in training", RESNET, statistics_in_training, "fingerprint", of=["tensorflow"]),
    *mutants(
        STATISTICS, "strided convolutions padded on one side", RESNET, padded_on_one_side, "fingerprint", of=["jax"]
    ),
    *mutants(RECIPE, "rates late by one step", LSTM, rates(lambda table: np.roll(table, 1)), "optimizer", **MODERN),
    *mutants(
        RECIPE,
        "no warm-up",
        LSTM,
        rates(lambda table: np.full_like(table, table.max())),
        "optimizer",
        of=["tensorflow"],
        **MODERN,
    ),
]
