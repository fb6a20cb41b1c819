"""The spec's optimizers in TensorFlow.

Keras' own SGD keeps the rate inside the velocity and has no coupled L2; its Adam and AdamW add epsilon before the bias
correction, and AdamW decays every tensor unless told their names. The optimizers below state the spec's formulas, and
take TensorFlow's fused kernels for them; L2, AdamW's decay and RMSprop are passes of their own over the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

import keras
import tensorflow as tf

from suite.worker.frameworks.tensorflow.layerwise import Lamb, Lars, Rated
from workloads import spec as specs
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec


def find_decays(module: ModuleType, model: keras.Model, spec: WorkloadSpec) -> dict[int, float]:
    """The decay of each variable by its ``id``, as that of the spec's tensor; empty where shapes say it."""
    decays = spec.own_decays
    variables = module.variables(model) if decays else {}
    return {id(variable): decays[name] for name, variable in variables.items() if name in decays}


def optimizer(
    spec: WorkloadSpec, rates: Array | None, decays: Mapping[int, float] | None = None
) -> keras.optimizers.Optimizer:
    """The spec's optimizer; ``rates`` are the learning rates of all steps, where they are not its own.

    ``decays`` are those of `find_decays`.
    """
    kinds = (Sgd, Adam, AdamW, RmsProp, Adagrad, Lars, Lamb)
    kind = {each.__name__: each for each in kinds}[type(spec.optimizer).__name__]
    return kind(spec.optimizer, rates, decays)


class Sgd(Rated):
    """`workloads.spec.Sgd` as a Keras optimizer."""

    spec: specs.Sgd

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.velocities = self.add_optimizer_variables(variables, "velocity")

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # Keras' own
        index, dtype = self._get_variable_index(variable), gradient.dtype
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=self.velocities[index].handle,
            lr=self.rate_now(dtype),
            grad=gradient + self.decays[index] * tf.convert_to_tensor(variable),
            momentum=tf.constant(self.spec.momentum, dtype),
            use_nesterov=self.spec.nesterov,
        )


class Adam(Rated):
    """`workloads.spec.Adam` as a Keras optimizer."""

    spec: specs.Adam | specs.AdamW

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.means, self.squares = self.add_optimizer_variables(variables, ["mean", "square"])

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # as in Sgd
        index, dtype = self._get_variable_index(variable), gradient.dtype
        step = tf.cast(self.iterations + 1, dtype)
        beta1, beta2 = (tf.constant(beta, dtype) for beta in (self.spec.beta1, self.spec.beta2))
        beta2_power = tf.pow(beta2, step)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self.means[index].handle,
            v=self.squares[index].handle,
            beta1_power=tf.pow(beta1, step),
            beta2_power=beta2_power,
            lr=self.rate_now(dtype),
            beta1=beta1,
            beta2=beta2,
            epsilon=self.spec.epsilon * tf.sqrt(1 - beta2_power),  # the kernel adds it before the bias correction
            grad=gradient,
        )


class AdamW(Adam):
    """`workloads.spec.AdamW` as a Keras optimizer."""

    spec: specs.AdamW

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        if decay := self.decays[self._get_variable_index(variable)]:
            variable.assign_sub(self.rate_now(gradient.dtype) * decay * tf.convert_to_tensor(variable))
        super().update_step(gradient, variable, learning_rate)


class RmsProp(Rated):
    """`workloads.spec.RmsProp` as a Keras optimizer, by operations: TensorFlow's kernel has epsilon in the root."""

    spec: specs.RmsProp

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.squares, self.velocities = self.add_optimizer_variables(variables, ["square", "velocity"])

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # as in Sgd
        index, spec, value = self._get_variable_index(variable), self.spec, tf.convert_to_tensor
        square, velocity = self.squares[index], self.velocities[index]
        coupled = gradient + self.decays[index] * value(variable)
        square.assign(spec.rho * value(square) + (1 - spec.rho) * tf.square(coupled))
        velocity.assign(spec.momentum * value(velocity) + coupled / (tf.sqrt(value(square)) + spec.epsilon))
        variable.assign_sub(self.rate_now(gradient.dtype) * value(velocity))


class Adagrad(Rated):
    """`workloads.spec.Adagrad` as a Keras optimizer."""

    spec: specs.Adagrad

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.sums = self.add_optimizer_variables(variables, "sum", initializer=self._start)

    def _start(self, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        return tf.constant(self.spec.start, dtype, shape)  # which Keras' own initializer rounds to float32

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # as in Sgd
        index, dtype = self._get_variable_index(variable), gradient.dtype
        tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle,
            accum=self.sums[index].handle,
            lr=self.rate_now(dtype),
            epsilon=tf.constant(self.spec.epsilon, dtype),
            grad=gradient + self.decays[index] * tf.convert_to_tensor(variable),
        )
