"""TensorFlow's strategy ``split``: the model's layers in two stages, each on a device of its own, in one process.

`tf.device` places the weights of each stage, its forward and backward passes, and its optimizer. A batch goes through
as microbatches of the cell's batch, as many as devices times accumulated batches: TensorFlow's executor has one on the
second device while the first works on the next. On a CPU the devices are logical ones, which share its threads.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from suite.plan.cell import LOADERS, Cell
from suite.worker.distributed.ranks import Ranks
from suite.worker.frameworks import UnsupportedError
from suite.worker.frameworks.tensorflow import training as single
from suite.worker.frameworks.tensorflow.devices import logical_cpus
from suite.worker.frameworks.tensorflow.optimizer import optimizer
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

# What `suite.worker.distributed.process_group` asks of the file for a strategy; no process trains by itself, and no
# gradient is summed.
__all__ = ("Training", "connect", "gradient_bytes", "init_process_group", "loaders")


def loaders(cell: Cell) -> tuple[str, ...]:
    del cell
    return LOADERS


def connect(cell: Cell, device: str, ranks: Ranks) -> None:
    del ranks
    logical_cpus(cell, device)


def init_process_group(cell: Cell, device: str, ranks: Ranks) -> dict[str, Any]:
    del ranks
    if len(_devices(device)) < cell.devices:
        raise UnsupportedError(f"{cell.devices} devices are asked for, and TensorFlow sees {len(_devices(device))}")
    return {"backend": "in-process", "microbatches": _microbatches(cell), "batch_normalisation": "per microbatch"}


def _devices(device: str) -> list[str]:
    return [each.name for each in tf.config.list_logical_devices("GPU" if device == "cuda" else "CPU")]


def _microbatches(cell: Cell) -> int:
    return cell.devices * cell.accumulate


class Stage:
    """Some layers of a sequential model on a device, and later their optimizer."""

    def __init__(self, layers: list[keras.layers.Layer], place: str) -> None:
        self.place = place
        before = layers[0].input
        with tf.device(place):  # layers get their weights where they are built, so these are new ones
            copies = [type(layer).from_config(layer.get_config()) for layer in layers]
            self.model = keras.Sequential([keras.Input(before.shape[1:], dtype=before.dtype), *copies])

    @property
    def weights(self) -> list[keras.Variable]:
        """What the optimizer moves."""
        trained: list[keras.Variable] = self.model.trainable_variables
        return trained


class Model:
    """Stages that follow each other, as the model that they are together."""

    def __init__(self, stages: list[Stage]) -> None:
        self.stages = stages
        self.layers = [layer for stage in stages for layer in stage.model.layers]
        self.variables = [variable for stage in stages for variable in stage.model.variables]
        self.trainable_variables = [variable for stage in stages for variable in stage.weights]

    def __call__(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        for stage in self.stages:
            with tf.device(stage.place):
                x = stage.model(x, training=training)
        return x


class Optimizers:
    """An optimizer for each stage, as the one that they are together."""

    def __init__(self, stages: list[Stage], spec: WorkloadSpec, rates: Array | None) -> None:
        self.stages, self.own = stages, []
        for stage in stages:
            with tf.device(stage.place):
                self.own.append(optimizer(spec, rates))
                self.own[-1].build(stage.weights)
        self.variables = [variable for own in self.own for variable in own.variables]

    def apply(self, gradients: list[list[tf.Tensor]]) -> None:
        """Move the weights of each stage along its gradients."""
        for stage, own, each in zip(self.stages, self.own, gradients, strict=True):
            with tf.device(stage.place):
                own.apply(each, stage.weights)


class Training(single.Training):
    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0, rates: Array | None = None, ranks: Ranks,
    ) -> None:  # fmt: skip
        super().__init__(cell, spec, module, weights, device, dropout=dropout, seed=seed, rates=rates)
        places = _devices(device)  # a CPU beside GPUs is one device, which computes the proof in float64
        layers = enumerate(module.stages(self.model))
        self.model = Model([Stage(own, places[number % len(places)]) for number, own in layers])
        module.import_weights(self.model, weights)
        self.trained = self.model.trainable_variables
        self.optimizer = Optimizers(self.model.stages, spec, rates)
        self.ranks = ranks

    def group_settings(self) -> dict[str, Any]:
        """The strategy and the number of devices, read back from where the weights lie."""
        return {"strategy": "split", "devices": len({each.value.device for each in self.model.trainable_variables})}

    def _update(self, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        count = _microbatches(self.cell)
        size = inputs.shape[0] // count
        parts = [(inputs[at : at + size], labels[at : at + size]) for at in range(0, count * size, size)]
        losses, gradients = zip(*(self._of_microbatch(x, y) for x, y in parts), strict=True)
        means = []
        for stage, own in zip(self.model.stages, zip(*gradients, strict=True), strict=True):
            with tf.device(stage.place):
                means.append([tf.add_n(shares) / count for shares in zip(*own, strict=True)])
        self.optimizer.apply(means)
        return tf.add_n(losses) / count, [mean for own in means for mean in own]

    def _of_microbatch(self, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[list[tf.Tensor]]]:
        first, second = self.model.stages
        with tf.device(first.place), tf.GradientTape() as before:
            x = first.model(inputs, training=True)
        with tf.device(second.place):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = self.module.loss(second.model, x, labels)
            own, back = tape.gradient(loss, (second.weights, x))
            own = [tf.convert_to_tensor(gradient) for gradient in own]
        with tf.device(first.place):
            earlier = before.gradient(x, first.weights, output_gradients=back)
            # An embedding's gradient comes as slices; the spec's optimizers move every row in every step.
            return loss, [[tf.convert_to_tensor(gradient) for gradient in earlier], own]

    def each(self, losses: list[tf.Tensor]) -> list[float]:
        return self.read(losses)


def gradient_bytes(training: Training) -> int:
    del training
    return 0
