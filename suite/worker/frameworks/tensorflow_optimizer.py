"""The spec's optimizers in TensorFlow.

Keras' own SGD keeps the rate inside the velocity and has no coupled L2; its Adam and AdamW add epsilon before the bias
correction, and AdamW decays every tensor unless told their names. The optimizers below state the spec's formulas.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from suite.worker.frameworks import tensorflow_layerwise
from suite.worker.frameworks.tensorflow_layerwise import rate_of
from workloads import spec as specs
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec


def optimizer(spec: WorkloadSpec, rates: Array | None) -> keras.optimizers.Optimizer:
    """The spec's optimizer; ``rates`` are the learning rates of all steps, where they are not its one."""
    config = spec.optimizer
    if isinstance(config, specs.LAYERWISE):
        return tensorflow_layerwise.optimizer(config, rates)
    if isinstance(config, specs.Sgd):
        return Sgd(config, rates)
    return AdamW(config, rates) if isinstance(config, specs.AdamW) else Adam(config, rates)


class Sgd(keras.optimizers.Optimizer):
    """`workloads.spec.Sgd` as a Keras optimizer."""

    def __init__(self, spec: specs.Sgd, rates: Array | None = None) -> None:
        super().__init__(learning_rate=spec.learning_rate)
        self.spec, self.rates = spec, rates

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.velocities = self.add_optimizer_variables(variables, "velocity")

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # kept in float32 by Keras, which a float64 proof would notice
        velocity = self.velocities[self._get_variable_index(variable)]
        coupled = gradient + self.spec.l2 * tf.convert_to_tensor(variable)
        new_velocity = self.spec.momentum * tf.convert_to_tensor(velocity) + coupled
        velocity.assign(new_velocity)
        variable.assign_sub(rate_of(self, gradient.dtype) * new_velocity)


class Adam(keras.optimizers.Optimizer):
    """`workloads.spec.Adam` as a Keras optimizer."""

    def __init__(self, spec: specs.Adam, rates: Array | None = None) -> None:
        super().__init__(learning_rate=spec.learning_rate)
        self.spec, self.rates = spec, rates

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.means, self.squares = self.add_optimizer_variables(variables, ["mean", "square"])

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # as in Sgd
        variable.assign_sub(self.move(gradient, variable))

    def move(self, gradient: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
        """What a step takes off a variable."""
        index, spec = self._get_variable_index(variable), self.spec
        mean, square = self.means[index], self.squares[index]
        mean.assign(spec.beta1 * tf.convert_to_tensor(mean) + (1 - spec.beta1) * gradient)
        square.assign(spec.beta2 * tf.convert_to_tensor(square) + (1 - spec.beta2) * tf.square(gradient))
        step = tf.cast(self.iterations + 1, gradient.dtype)
        beta1, beta2 = (tf.constant(beta, gradient.dtype) for beta in (spec.beta1, spec.beta2))
        root = tf.sqrt(tf.convert_to_tensor(square) / (1 - tf.pow(beta2, step))) + spec.epsilon
        return rate_of(self, gradient.dtype) / (1 - tf.pow(beta1, step)) * tf.convert_to_tensor(mean) / root


class AdamW(Adam):
    """`workloads.spec.AdamW` as a Keras optimizer."""

    spec: specs.AdamW

    def move(self, gradient: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
        move = super().move(gradient, variable)
        if len(variable.shape) < 2:  # a bias or a scale
            return move
        return move + rate_of(self, gradient.dtype) * self.spec.decay * tf.convert_to_tensor(variable)
