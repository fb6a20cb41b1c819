"""TensorFlow: one `tf.function` with forward, loss, gradient and update; optimizers with PyTorch's arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from suite.plan.cell import Cell
from suite.worker.frameworks import (
    LOSS_SCALE,
    LOSS_SCALE_GROWTH_STEPS,
    NUMBERS,
    UnsupportedError,
    build,
    check_batch,
    choose,
)
from suite.worker.frameworks.tensorflow.device import (
    installation,
    memory,
    other_accelerator,
    out_of_memory,
    place,
    place_array,
    reset_memory,
    synchronise,
    take_threads,
)
from suite.worker.frameworks.tensorflow.optimizer import find_decays, optimizer
from workloads.data.dataset import Array
from workloads.defaults.tensorflow import join
from workloads.lengths import FIXED
from workloads.spec import FROZEN, WorkloadSpec, read_declaration

__all__ = (
    "DISTRIBUTIONS", "NUMBERS", "Training", "convolution", "installation", "memory", "multiplication", "out_of_memory",
    "prepare", "product", "reset_memory",
)  # fmt: skip

DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "keras")

COMPILE_MODES = {"graph": False, "compile": True}

Batch = tuple[tf.Tensor, tf.Tensor]


def prepare(cell: Cell, device: str, seed: int) -> tuple[str, dict[str, Any]]:
    take_threads(cell)  # before anything starts TensorFlow's own
    cards = tf.config.list_physical_devices("GPU")
    device = choose(
        cell,
        device,
        "TensorFlow",
        cuda=bool(cards),
        installation=installation,
        other=other_accelerator(),
        modes=COMPILE_MODES,
    )
    cudnn = read_declaration(cell.workload).recurrent and device == "cuda" and cell.kernel != "scan"
    if cudnn and cell.compile == "compile":
        raise UnsupportedError("cuDNN's LSTM cannot be compiled by XLA in TensorFlow; use the graph mode")
    for card in cards:
        tf.config.experimental.set_memory_growth(card, cell.allocator != "preallocated")
    keras.utils.set_random_seed(seed)  # of Python too, from which Keras' dropout layers draw their seeds
    keras.config.set_image_data_format("channels_last")
    tf.config.experimental.enable_tensor_float_32_execution(cell.precision == "tf32")
    details = tf.config.experimental.get_device_details(cards[0]) if device == "cuda" else {}
    return device, {
        "device": device,
        "device_name": details.get("device_name", ""),
        "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
        "image_data_format": keras.config.image_data_format(),
        **(_on_cuda(cell) if device == "cuda" else {}),
    }


def _on_cuda(cell: Cell) -> dict[str, Any]:
    # The memory is as it comes: there is no setting for an allocator that grows (see `MEMORY_FRACTION`). What XLA makes
    # of a step in TensorFlow is not known.
    graphs = None if cell.compile == "compile" else False
    return {"memory_fraction": None, "cuda_graphs": graphs}


class Training:
    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0, rates: Array | None = None,
    ) -> None:  # fmt: skip
        del seed  # dropout draws from the global seed, which `prepare` sets
        self.cell, self.module, self.device = cell, module, device
        with tf.device(place(device)):
            self.model = build(module, cell, spec, NUMBERS[cell.precision], dropout, device)
            module.import_weights(self.model, weights)
            decays = find_decays(module, self.model, spec)
            self.trained = [each for each in self.model.trainable_variables if decays.get(id(each)) != FROZEN]
            self.optimizer = optimizer(spec, rates, decays)
            if cell.precision == "fp16":
                self.optimizer = keras.optimizers.LossScaleOptimizer(
                    self.optimizer, initial_scale=LOSS_SCALE, dynamic_growth_steps=LOSS_SCALE_GROWTH_STEPS
                )
            self.optimizer.build(self.trained)
        # XLA compiles for each shape in any case; a graph is traced once more, for any length.
        of_any = cell.lengths != FIXED and not COMPILE_MODES[cell.compile]
        self.programs = "tf.function, reduce_retracing=True" if of_any else "one for each shape"
        self.function = tf.function(
            self._step, jit_compile=COMPILE_MODES[cell.compile], autograph=False, reduce_retracing=of_any
        )
        self.explained = tf.function(self._update, jit_compile=COMPILE_MODES[cell.compile], autograph=False)
        self.scores = tf.function(self._scores, jit_compile=COMPILE_MODES[cell.compile], autograph=False)

    def put(self, batch: tuple[Array | tf.Tensor, Array | tf.Tensor]) -> Batch:
        inputs, labels = (place_array(array, self.device) for array in batch)
        return inputs, labels

    def get(self, batch: Batch) -> tuple[Array, Array]:
        """The batch back on the host, as it reached the device; integers in the type in which they were sent."""
        arrays = (tensor.numpy() for tensor in batch)
        inputs, labels = (array.astype(np.int32) if array.dtype == np.int64 else array for array in arrays)
        return inputs, labels

    def compile(self, batch: Batch) -> bool:
        self.function.get_concrete_function(*batch)  # traces; XLA, where asked for, compiles inside the first call
        return True

    def _step(self, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """One update; the loss before it. `step` calls this as a `tf.function`."""
        return self._update(inputs, labels)[0]

    def _update(self, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """One update; the loss before it and the gradients that it followed."""
        count, size = self.cell.accumulate, self.cell.batch
        parts = [(inputs, labels)]
        if count > 1:  # by slices: `tf.split` has no kernel for integers on a GPU and would send them to the host
            parts = [(inputs[at : at + size], labels[at : at + size]) for at in range(0, count * size, size)]
        losses, gradients = zip(*(self._loss_and_gradients(x, y, scaled=True) for x, y in parts), strict=True)
        means = [tf.add_n(shares) / count if count > 1 else shares[0] for shares in zip(*gradients, strict=True)]
        self.optimizer.apply(means, self.trained)
        return tf.add_n(losses) / count if count > 1 else losses[0], means

    def step(self, batch: Batch) -> tf.Tensor:
        check_batch(self.cell, len(batch[1]))
        return self.function(*batch)

    def evaluate(self, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        return self.scores(*batch)

    def _scores(self, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return self.module.scores(self.model, inputs, labels)

    def fence(self, pending: Any = None) -> None:
        if pending is not None:
            synchronise(self.device)

    def read(self, losses: list[tf.Tensor]) -> list[float]:
        return [float(loss) for loss in losses]

    def count_compiled(self) -> dict[str, int]:
        return {"graphs": self.function.experimental_get_tracing_count(), "graph_breaks": 0}

    def weights(self) -> dict[str, Array]:
        return self.module.export_weights(self.model)

    def checkpoint(self) -> dict[str, Array]:
        return {name: np.array(variable.numpy()) for name, variable in self._variables().items()}

    def restore(self, state: dict[str, Array]) -> None:
        for name, variable in self._variables().items():
            variable.assign(state[name])

    def _variables(self) -> dict[str, keras.Variable]:
        """Weights, statistics, the seeds of dropout, and the optimizer's; Keras' names alone may repeat."""
        groups = {"model": self.model.variables, "optimizer": self.optimizer.variables}
        return {f"{group}/{i}/{v.path}": v for group, variables in groups.items() for i, v in enumerate(variables)}

    def gradients(self, batch: Batch) -> tuple[float, dict[str, Array]]:
        loss, gradients = tf.function(self._loss_and_gradients, autograph=False)(*batch)
        return float(loss), self.named(gradients)

    def named(self, gradients: list[tf.Tensor]) -> dict[str, Array]:
        """The gradients of a step by canonical names, on the host; zeros for a tensor that is not trained."""
        own = {id(variable): gradient for variable, gradient in zip(self.trained, gradients, strict=True)}
        variables = self.module.variables(self.model)
        return {name: own.get(id(each), tf.zeros_like(each)).numpy() for name, each in variables.items()}

    def logits(self, batch: Batch) -> Array:
        return tf.cast(join(self.model(batch[0], training=True)), tf.float64).numpy()

    def _loss_and_gradients(
        self, inputs: tf.Tensor, labels: tf.Tensor, scaled: bool = False
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            loss = self.module.loss(self.model, inputs, labels)
            differentiated = self.optimizer.scale_loss(loss) if scaled else loss
        gradients = tape.gradient(differentiated, self.trained)
        # An embedding's gradient comes as slices; the spec's optimizers move every row in every step.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


def product(cell: Cell, device: str, a: Array, b: Array) -> Array:
    left, right = _operands(cell, device, a, b)
    return tf.cast(tf.matmul(left, right), tf.float64).numpy()


def convolution(cell: Cell, device: str, images: Array, kernel: Array) -> Array:
    left, right = _operands(cell, device, images, kernel)
    return tf.cast(tf.nn.conv2d(left, right, 1, "VALID"), tf.float64).numpy()


def multiplication(cell: Cell, device: str, a: Array, b: Array, repeats: int = 1) -> Callable[[int], None]:
    with tf.device(place(device)):
        left, right = (tf.tile(operand, [repeats, repeats]) for operand in _operands(cell, device, a, b))

    def run(count: int) -> None:
        with tf.device(place(device)):
            for _ in range(count):
                tf.matmul(left, right)
        synchronise(device)

    return run


def _operands(cell: Cell, device: str, *arrays: Array) -> list[tf.Tensor]:
    with tf.device(place(device)):
        return [tf.cast(tf.identity(array), NUMBERS[cell.precision].compute) for array in arrays]
