"""LARS and LAMB in TensorFlow: the arithmetic of `workloads.spec`, tensor by tensor; and what all optimizers share.

Keras has no LARS, and its LAMB decays weights beside the move that is scaled, not within it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from workloads import spec as specs
from workloads.data.dataset import Array
from workloads.optimizers import Rates


class Rated(keras.optimizers.Optimizer):
    """An optimizer whose learning rate has the type of the weights; Keras' own rate is in float32 always.

    The spec's rate is a part of the state, so that a compiled step serves any; those of all steps are a table in it.
    Each variable has the decay of the spec's tensor, by its ``id`` in ``decays``.
    """

    spec: Any

    def __init__(self, spec: Any, rates: Array | None = None, decays: Mapping[int, float] | None = None) -> None:
        super().__init__(learning_rate=spec.learning_rate)
        self.spec, self.rates, self.by_variable = spec, spec.rates if rates is None else rates, decays or {}

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        usual = self.spec.decay_of
        self.decays = [self.by_variable.get(id(each), usual(tuple(each.shape))) for each in variables]
        if self.rates is None:
            self.rate = self.add_variable((), self._constant_rate, variables[0].dtype, name="rate")

    def _constant_rate(self, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        return tf.constant(self.spec.learning_rate, dtype, shape)

    def rate_now(self, dtype: tf.DType) -> tf.Tensor:
        """The learning rate of this step."""
        if self.rates is None:
            return tf.convert_to_tensor(self.rate)
        step, last = self.iterations, len(self.rates) - 1
        if isinstance(self.rates, Rates):
            step = tf.minimum(tf.cast(step, tf.int32), last)
        return tf.cast(tf.gather(tf.constant(np.asarray(self.rates)), step), dtype)

    def apply(self, grads: list[tf.Tensor], trainable_variables: list[keras.Variable] | None = None) -> Any:
        """Update the variables along their gradients, once these are clipped."""
        if self.spec.clip_norm is not None:
            grads, _ = tf.clip_by_global_norm(grads, self.spec.clip_norm)
        if (most := self.spec.clip_value) is not None:
            grads = [tf.clip_by_value(gradient, -most, most) for gradient in grads]
        return super().apply(grads, trainable_variables)


class Lars(Rated):
    """`workloads.spec.Lars` as a Keras optimizer."""

    spec: specs.Lars

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.velocities = self.add_optimizer_variables(variables, "velocity")

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # Keras' own
        index, spec, weight = self._get_variable_index(variable), self.spec, tf.convert_to_tensor(variable)
        velocity, l2 = self.velocities[index], self.decays[index]
        ratio = _ratio(tf.norm(weight), tf.norm(gradient) + l2 * tf.norm(weight))
        local = self.rate_now(gradient.dtype) * spec.coefficient * ratio
        new_velocity = spec.momentum * tf.convert_to_tensor(velocity) + local * (gradient + l2 * weight)
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
        move = tf.convert_to_tensor(mean) / (1 - tf.pow(beta1, step)) / root + self.decays[index] * weight
        variable.assign_sub(self.rate_now(gradient.dtype) * _ratio(tf.norm(weight), tf.norm(move)) * move)


def _ratio(weight: tf.Tensor, move: tf.Tensor) -> tf.Tensor:
    """The quotient of two norms; 1 where one of them is zero."""
    return tf.where((weight > 0) & (move > 0), tf.math.divide_no_nan(weight, move), tf.ones_like(weight))
