"""The spec's optimizers in TensorFlow.

Keras' own SGD keeps the rate inside the velocity and has no coupled L2; its Adam and AdamW add epsilon before the bias
correction, and AdamW decays every tensor unless told their names. The optimizers below state the spec's formulas, and
take TensorFlow's fused kernels for them; only SGD's L2 and AdamW's decay are passes of their own over the weights.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from suite.worker.frameworks.tensorflow import layerwise as tensorflow_layerwise
from suite.worker.frameworks.tensorflow.layerwise import Rated
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


class Sgd(Rated):
    """`workloads.spec.Sgd` as a Keras optimizer."""

    spec: specs.Sgd

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.velocities = self.add_optimizer_variables(variables, "velocity")

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # Keras' own
        dtype = gradient.dtype
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=self.velocities[self._get_variable_index(variable)].handle,
            lr=self.rate_now(dtype),
            grad=gradient + self.spec.l2 * tf.convert_to_tensor(variable),
            momentum=tf.constant(self.spec.momentum, dtype),
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
        if len(variable.shape) > 1:  # no bias and no scale
            decay = self.rate_now(gradient.dtype) * self.spec.decay
            variable.assign_sub(decay * tf.convert_to_tensor(variable))
        super().update_step(gradient, variable, learning_rate)
