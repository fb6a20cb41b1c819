"""LARS and LAMB in TensorFlow: the arithmetic of `workloads.spec`, tensor by tensor; and the rate of all optimizers.

Keras has no LARS, and its LAMB decays weights beside the move that is scaled, not within it.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from workloads import spec as specs
from workloads.data.dataset import Array


def optimizer(config: specs.Lars | specs.Lamb, rates: Array | None) -> keras.optimizers.Optimizer:
    """The optimizer of these settings; ``rates`` are the learning rates of all steps, where they are not its one."""
    return Lars(config, rates) if isinstance(config, specs.Lars) else Lamb(config, rates)


class Rated(keras.optimizers.Optimizer):
    """An optimizer whose learning rate has the type of the weights; Keras' own rate is in float32 always.

    The spec's rate is a part of the state, so that a compiled step serves any; those of all steps are a table in it.
    """

    spec: Any

    def __init__(self, spec: Any, rates: Array | None = None) -> None:
        super().__init__(learning_rate=spec.learning_rate)
        self.spec, self.rates = spec, rates

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        if self.rates is None:
            self.rate = self.add_variable((), self._constant_rate, variables[0].dtype, name="rate")

    def _constant_rate(self, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        return tf.constant(self.spec.learning_rate, dtype, shape)

    def rate_now(self, dtype: tf.DType) -> tf.Tensor:
        """The learning rate of this step."""
        if self.rates is None:
            return tf.convert_to_tensor(self.rate)
        return tf.cast(tf.gather(tf.constant(self.rates), self.iterations), dtype)


class Lars(Rated):
    """`workloads.spec.Lars` as a Keras optimizer."""

    spec: specs.Lars

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.velocities = self.add_optimizer_variables(variables, "velocity")

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # Keras' own
        spec, weight = self.spec, tf.convert_to_tensor(variable)
        velocity = self.velocities[self._get_variable_index(variable)]
        ratio = _ratio(tf.norm(weight), tf.norm(gradient) + spec.l2 * tf.norm(weight))
        local = self.rate_now(gradient.dtype) * spec.coefficient * ratio
        new_velocity = spec.momentum * tf.convert_to_tensor(velocity) + local * (gradient + spec.l2 * weight)
        velocity.assign(new_velocity)
        variable.assign_sub(new_velocity)


class Lamb(Rated):
    """`workloads.spec.Lamb` as a Keras optimizer."""

    spec: specs.Lamb

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.means, self.squares = self.add_optimizer_variables(variables, ["mean", "square"])

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # as in Lars
        index, spec, weight = self._get_variable_index(variable), self.spec, tf.convert_to_tensor(variable)
        mean, square = self.means[index], self.squares[index]
        mean.assign(spec.beta1 * tf.convert_to_tensor(mean) + (1 - spec.beta1) * gradient)
        square.assign(spec.beta2 * tf.convert_to_tensor(square) + (1 - spec.beta2) * tf.square(gradient))
        step = tf.cast(self.iterations + 1, gradient.dtype)
        beta1, beta2 = (tf.constant(beta, gradient.dtype) for beta in (spec.beta1, spec.beta2))
        root = tf.sqrt(tf.convert_to_tensor(square) / (1 - tf.pow(beta2, step))) + spec.epsilon
        move = tf.convert_to_tensor(mean) / (1 - tf.pow(beta1, step)) / root + spec.decay * weight
        variable.assign_sub(self.rate_now(gradient.dtype) * _ratio(tf.norm(weight), tf.norm(move)) * move)


def _ratio(weight: tf.Tensor, move: tf.Tensor) -> tf.Tensor:
    """The quotient of two norms; 1 where one of them is zero."""
    return tf.where((weight > 0) & (move > 0), tf.math.divide_no_nan(weight, move), tf.ones_like(weight))
