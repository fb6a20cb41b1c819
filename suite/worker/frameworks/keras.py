"""Keras on any backend, as its users drive it: `train_on_batch`, or `fit`, on the suite's weights and batches.

The loss is Keras' own. The optimizers are the spec's, as subclasses of Keras': its own SGD keeps the rate inside the
velocity and its Adam adds epsilon before the bias correction, so that with them nothing could be proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from inspect import getclosurevars
from itertools import islice
from types import ModuleType
from typing import Any, ClassVar

import keras
import numpy as np
from keras.src.backend.common import dtypes

from suite.catalog.settings import LAYOUTS
from suite.plan.cell import Cell
from suite.worker.frameworks import LOSS_SCALE, LOSS_SCALE_GROWTH_STEPS, NUMBERS, UnsupportedError, check_batch
from suite.worker.interfaces import LEAST_EPOCH_S
from workloads import spec as specs
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

DISTRIBUTIONS = ("keras",)


def find_framework() -> str:
    """The framework that Keras runs on."""
    backend: str = keras.backend.backend()
    return "pytorch" if backend == "torch" else backend


FRAMEWORK = find_framework()
native = import_module(f"suite.worker.frameworks.{FRAMEWORK}.training")
evidence = import_module(f"suite.worker.frameworks.{FRAMEWORK}.evidence")
compile_cache = evidence.compile_cache


def prepare(cell: Cell, device: str, seed: int) -> dict[str, Any]:
    """Set Keras' global switches, once its backend is prepared; the settings that it adds."""
    del device  # Keras puts its variables on a GPU where its backend sees one
    if cell.framework != (backend := find_framework()):
        raise RuntimeError(f"Keras runs on {backend}, not on {cell.framework}: KERAS_BACKEND came too late")
    if cell.precision == "fp64" and FRAMEWORK != "tensorflow":
        raise UnsupportedError(f"Keras promotes to float32 at most on {cell.framework}, so that fp64 would be neither")
    keras.utils.set_random_seed(seed)
    keras.config.set_floatx("float64" if cell.precision == "fp64" else "float32")  # of losses and metrics
    keras.config.set_image_data_format("channels_last")
    return {"image_data_format": keras.config.image_data_format()}


@contextmanager
def in_float64() -> Iterator[None]:
    """A context in which Keras computes in float64 where its tensors are.

    By itself it makes losses and metrics in float32 in any model, and on PyTorch and JAX the types that it promotes to
    have no float64: sums, quotients and means then pass through float32. That leaves 1e-8 where there should be 1e-15.
    """
    previous, promoted = keras.config.floatx(), dtypes.BIT64_TO_BIT32_DTYPE["float64"]
    keras.config.set_floatx("float64")
    dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"
    try:
        yield
    finally:
        keras.config.set_floatx(previous)
        dtypes.BIT64_TO_BIT32_DTYPE["float64"] = promoted


@contextmanager
def on_host() -> Iterator[None]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    with evidence.on_host() if FRAMEWORK == "jax" else keras.device("cpu"), in_float64():
        yield


def _wait_for_variables(training: Any, pending: Any = None) -> None:
    native.jax.block_until_ready([pending, *(variable.value for variable in training.model.variables)])


class Training:
    def __init__(
        self, cell: Cell, spec: WorkloadSpec, module: ModuleType, weights: dict[str, Array], device: str,
        *, dropout: bool = True, seed: int = 0, rates: Array | None = None,
    ) -> None:  # fmt: skip
        del seed  # dropout draws from the global seed, which `prepare` sets
        self.cell, self.spec, self.module, self.device = cell, spec, module, device
        self.numbers, self.rates = NUMBERS[cell.precision], rates
        with native.tf.device(native.place(device)) if FRAMEWORK == "tensorflow" else nullcontext():
            self.model = module.build(spec, self.numbers, dropout, device, cell.kernel)
            module.import_weights(self.model, weights)
            self.prepare()

    # On JAX's default device, and not bound to it: what is bound would have the second step compile.
    put = staticmethod(native.jax.device_put) if FRAMEWORK == "jax" else native.Training.put
    get = native.Training.get
    fence = _wait_for_variables if FRAMEWORK == "jax" else native.Training.fence

    def prepare(self, explained: bool = False) -> None:
        """Give the model its optimizer, loss and step; ``explained`` ones keep the gradients that they followed."""
        config = self.spec.optimizer
        kind = {specs.Sgd: Sgd, specs.Adam: Adam}.get(type(config))
        if kind is None:
            raise UnsupportedError(
                f"{self.cell.interface} is measured with Sgd and Adam, not with {type(config).__name__}"
            )
        self.inner = self.optimizer = kind(config, self.rates, explained)
        if self.cell.precision == "fp16":
            self.optimizer = keras.optimizers.LossScaleOptimizer(
                self.inner, initial_scale=LOSS_SCALE, dynamic_growth_steps=LOSS_SCALE_GROWTH_STEPS
            )
        # A user of `fit` leaves this to Keras, which compiles with XLA where there is a GPU (TensorFlow) or anywhere.
        jit = "auto" if self.cell.interface == "keras-fit" else self.cell.compile == "compile"
        loss = self.module.loss(self.numbers.weights)
        self.model.compile(optimizer=self.optimizer, loss=loss, jit_compile=jit, auto_scale_loss=False)
        self.optimizer.build(self.model.trainable_variables)

    @property
    def least_window_s(self) -> float:
        """Seconds of the shortest window that says something: with `fit` each window is an epoch, which has a start."""
        return LEAST_EPOCH_S if self.cell.interface == "keras-fit" else 0.0

    def settings(self) -> dict[str, Any]:
        """What Keras made of the cell."""
        return {"jit_compile": bool(self.model.jit_compile)}

    def compile(self, batch: Any) -> bool:
        del batch  # Keras compiles inside the first step
        return False

    def step(self, batch: Any) -> float:
        """Make one update; returns the loss before it, for which Keras waits."""
        check_batch(self.cell, len(batch[1]))
        if self.cell.interface == "keras":
            return float(self.model.train_on_batch(*batch))
        return self.run(iter([batch]), 1)

    def run(self, batches: Iterator[Any], count: int) -> float:
        """Make ``count`` updates as the interface's users do; returns the last loss, or with `fit` the epoch's mean."""
        if self.cell.interface == "keras":
            return [self.step(next(batches)) for _ in range(count)][-1]
        epoch = (batch for batch in islice(batches, count))
        history = self.model.fit(epoch, steps_per_epoch=count, epochs=1, shuffle=False, verbose=0)
        return float(history.history["loss"][0])

    def evaluate(self, batch: Any) -> tuple[Any, Any]:
        inputs, labels = batch
        logits = keras.ops.convert_to_tensor(self.model.predict_on_batch(inputs), self.numbers.weights)
        return self.module.scores(logits, labels)

    def read(self, losses: list[float]) -> list[float]:
        return list(losses)

    def _count_traces(self) -> dict[str, int]:
        return {"graphs": self.inner.calls, "graph_breaks": 0}  # the step is traced where it is compiled

    # PyTorch counts by itself: an eager step is no graph, and Python runs each.
    count_compiled = native.Training.count_compiled if FRAMEWORK == "pytorch" else _count_traces

    def weights(self) -> dict[str, Array]:
        return self.module.export_weights(self.model)

    def checkpoint(self) -> dict[str, Array]:
        return {name: _on_host(variable) for name, variable in self._variables().items()}

    def restore(self, state: dict[str, Array]) -> None:
        for name, variable in self._variables().items():
            variable.assign(state[name])

    def _variables(self) -> dict[str, keras.Variable]:
        groups = {"model": self.model.variables, "optimizer": self.optimizer.variables}
        return {f"{group}/{i}/{v.path}": v for group, variables in groups.items() for i, v in enumerate(variables)}

    def logits(self, batch: Any) -> Array:
        logits = keras.ops.cast(self.model(batch[0], training=True), self.numbers.weights)
        return np.asarray(keras.ops.convert_to_numpy(logits), np.float64)


def explain_step(training: Training, batch: Any) -> tuple[float, dict[str, Array]]:
    """From the first step on the optimizer keeps the gradients in variables of its own."""
    if not training.inner.explained:
        training.prepare(explained=True)
    loss = training.step(batch)
    names = training.module.variables(training.model)
    return loss, {name: _on_host(kept) for name, kept in zip(names, training.inner.gradients, strict=True)}


def updates(training: Any) -> int | None:
    return int(_on_host(training.inner.iterations))


def applied(training: Training, batch: Any) -> dict[str, Any]:
    """The settings of a cell that Keras and its backend apply, as read from what ran."""
    del batch
    layers = training.model.layers
    cudnn = {layer.use_cudnn for layer in layers if hasattr(layer, "use_cudnn")}
    last = all(layer.data_format == "channels_last" for layer in layers if hasattr(layer, "data_format"))
    return _applied_by_backend(training) | {
        "framework": find_framework(),
        "interface": "keras-fit" if hasattr(training.model, "history") else "keras",  # which only `fit` leaves
        "checkpointing": "off",
        "kernel": "cudnn" if True in cudnn else "scan" if False in cudnn else "auto",
        "layout": LAYOUTS[0] if last else LAYOUTS[1],
    }


def _applied_by_backend(training: Training) -> dict[str, Any]:
    if FRAMEWORK == "pytorch":
        own: dict[str, Any] = evidence.read_process(training)
    elif FRAMEWORK == "jax":
        step = training.model.train_function
        step = getclosurevars(step).nonlocals.get("step_function", step)  # where Keras wraps the step that it jits
        own = evidence.read_process(training, hasattr(step, "lower"))
    else:
        running = evidence.context.context()
        names = [name for name in running.list_function_names() if "one_step_on_data" in name]
        steps = [running.get_function_def(name) for name in names]
        own = evidence.read_program(training, steps, [node for each in steps for node in each.node_def])
    return own


def draws(training: Training, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
    """Of its layers it shows nothing."""
    return np.stack([training.logits(batch) for _ in range(count)]), {}


def _on_host(variable: keras.Variable) -> Array:
    """A copy of a variable, through a tensor: TensorFlow's variables do not take NumPy's newer arguments."""
    return np.array(keras.ops.convert_to_numpy(keras.ops.copy(variable)))


class Optimizer(keras.optimizers.Optimizer):
    """What both optimizers share. ``calls`` counts the updates that Python ran: in a compiled step, its traces."""

    slots: ClassVar[tuple[str, ...]] = ()  # what is kept of each variable

    def __init__(self, spec: Any, rates: Array | None, explained: bool) -> None:
        super().__init__(learning_rate=spec.learning_rate)
        self.spec, self.rates, self.explained, self.calls = spec, rates, explained, 0

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.gradients = self.add_optimizer_variables(variables, "gradient") if self.explained else []
        self.kept = self.add_optimizer_variables(variables, [*self.slots])

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        self.calls += 1
        return super().apply(grads, trainable_variables)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        del learning_rate  # in float32
        index = self._get_variable_index(variable)
        if FRAMEWORK == "tensorflow":  # which gives that of an embedding as slices
            gradient = native.tf.convert_to_tensor(gradient)
        if self.explained:
            self.assign(self.gradients[index], gradient)
        self.move(variable, gradient, *(slot[index] for slot in self.kept))

    def move(self, variable: Any, gradient: Any, *kept: keras.Variable) -> None:
        """Change the variable, and what is kept of it."""
        raise NotImplementedError

    def rate(self, dtype: str) -> Any:
        """The learning rate of this step: the spec's, or the table's. Keras keeps its own in float32."""
        if self.rates is None:
            return self.spec.learning_rate
        table = keras.ops.convert_to_tensor(np.asarray(self.rates, dtype))
        return keras.ops.take(table, keras.ops.convert_to_tensor(self.iterations))


class Sgd(Optimizer):
    slots = ("velocity",)

    def move(self, variable: Any, gradient: Any, *kept: keras.Variable) -> None:
        value, (velocity,) = keras.ops.convert_to_tensor, kept
        coupled = gradient + self.spec.l2 * value(variable)
        new_velocity = self.spec.momentum * value(velocity) + coupled
        self.assign(velocity, new_velocity)
        self.assign_sub(variable, self.rate(velocity.dtype) * new_velocity)


class Adam(Optimizer):
    slots = ("mean", "square")

    def move(self, variable: Any, gradient: Any, *kept: keras.Variable) -> None:
        spec, value, (mean, square) = self.spec, keras.ops.convert_to_tensor, kept
        new_mean = spec.beta1 * value(mean) + (1 - spec.beta1) * gradient
        new_square = spec.beta2 * value(square) + (1 - spec.beta2) * gradient * gradient
        self.assign(mean, new_mean)
        self.assign(square, new_square)
        step = keras.ops.cast(self.iterations + 1, mean.dtype)
        beta1, beta2 = (value(np.array(beta, mean.dtype)) for beta in (spec.beta1, spec.beta2))
        root = keras.ops.sqrt(new_square / (1 - keras.ops.power(beta2, step))) + spec.epsilon
        corrected = self.rate(mean.dtype) / (1 - keras.ops.power(beta1, step))
        self.assign_sub(variable, corrected * new_mean / root)
