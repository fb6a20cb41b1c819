"""The spec's optimizers in TensorFlow.

Keras' own SGD keeps the rate inside the velocity and has no coupled L2; its Adam and AdamW add epsilon before the bias
correction, and AdamW decays every tensor unless told their names. The optimizers below state the spec's formulas, and
take TensorFlow's fused kernels for them; L2, AdamW's decay, RMSprop, LARS and LAMB are passes over the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from workloads.data.dataset import Array
from workloads.optimizers import Rates
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
    kinds: dict[str, Any] = {each.__name__: each for each in (Sgd, Adam, AdamW, RmsProp, Adagrad, Lars, Lamb)}
    return kinds[type(spec.optimizer).__name__](spec.optimizer, rates, decays)


class Rated(keras.optimizers.Optimizer):
    """An optimizer whose learning rate has the type of the weights; Keras' own rate is in float32 always.

    The spec's rate is a part of the state, so that a compiled step serves any; those of all steps are a table in it.
    Each variable has the decay of the spec's tensor, by its ``id`` in ``decays``.
    """

    spec: Any
    #: What is kept of each variable, and from what on.
    slots: ClassVar[tuple[str, ...]] = ()
    initial: Any = "zeros"

    def __init__(self, spec: Any, rates: Array | None = None, decays: Mapping[int, float] | None = None) -> None:
        super().__init__(learning_rate=spec.learning_rate)
        self.spec, self.rates, self.by_variable = spec, spec.rates if rates is None else rates, decays or {}

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        usual = self.spec.decay_of
        self.decays = [self.by_variable.get(id(each), usual(tuple(each.shape))) for each in variables]
        if self.rates is None:
            self.rate = self.add_variable((), self._constant_rate, variables[0].dtype, name="rate")
        self.kept = self.add_optimizer_variables(variables, [*self.slots], [self.initial] * len(self.slots))

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

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        del learning_rate  # Keras' own
        index = self._get_variable_index(variable)
        self.move(variable, gradient, self.decays[index], *(slot[index] for slot in self.kept))

    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        """Change the variable, and what is kept of it."""
        raise NotImplementedError


class Sgd(Rated):
    slots = ("velocity",)

    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=kept[0].handle,
            lr=self.rate_now(gradient.dtype),
            grad=gradient + decay * tf.convert_to_tensor(variable),
            momentum=tf.constant(self.spec.momentum, gradient.dtype),
            use_nesterov=self.spec.nesterov,
        )


class Adam(Rated):
    slots = ("mean", "square")

    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        dtype, (mean, square) = gradient.dtype, kept
        step = tf.cast(self.iterations + 1, dtype)
        beta1, beta2 = (tf.constant(beta, dtype) for beta in (self.spec.beta1, self.spec.beta2))
        beta2_power = tf.pow(beta2, step)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=mean.handle,
            v=square.handle,
            beta1_power=tf.pow(beta1, step),
            beta2_power=beta2_power,
            lr=self.rate_now(dtype),
            beta1=beta1,
            beta2=beta2,
            epsilon=self.spec.epsilon * tf.sqrt(1 - beta2_power),  # the kernel adds it before the bias correction
            grad=gradient + decay * tf.convert_to_tensor(variable) if decay else gradient,
        )


class AdamW(Adam):
    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        if decay:
            variable.assign_sub(self.rate_now(gradient.dtype) * decay * tf.convert_to_tensor(variable))
        super().move(variable, gradient, 0.0, *kept)


class RmsProp(Rated):
    """By operations: TensorFlow's kernel has epsilon in the root."""

    slots = ("square", "velocity")

    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        spec, value, (square, velocity) = self.spec, tf.convert_to_tensor, kept
        coupled = gradient + decay * value(variable)
        square.assign(spec.rho * value(square) + (1 - spec.rho) * tf.square(coupled))
        velocity.assign(spec.momentum * value(velocity) + coupled / (tf.sqrt(value(square)) + spec.epsilon))
        variable.assign_sub(self.rate_now(gradient.dtype) * value(velocity))


class Adagrad(Rated):
    slots = ("sum",)

    def initial(self, shape: tuple[int, ...], dtype: str) -> tf.Tensor:
        return tf.constant(self.spec.start, dtype, shape)  # which Keras' own initializer rounds to float32

    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle,
            accum=kept[0].handle,
            lr=self.rate_now(gradient.dtype),
            epsilon=tf.constant(self.spec.epsilon, gradient.dtype),
            grad=gradient + decay * tf.convert_to_tensor(variable),
        )


class Lars(Rated):
    slots = ("velocity",)

    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        spec, weight, (velocity,) = self.spec, tf.convert_to_tensor(variable), kept
        ratio = _ratio(tf.norm(weight), tf.norm(gradient) + decay * tf.norm(weight))
        local = self.rate_now(gradient.dtype) * spec.coefficient * ratio
        new_velocity = spec.momentum * tf.convert_to_tensor(velocity) + local * (gradient + decay * weight)
        velocity.assign(new_velocity)
        variable.assign_sub(new_velocity)


class Lamb(Rated):
    slots = ("mean", "square")

    def move(self, variable: keras.Variable, gradient: tf.Tensor, decay: float, *kept: keras.Variable) -> None:
        spec, weight, (mean, square) = self.spec, tf.convert_to_tensor(variable), kept
        mean.assign(spec.beta1 * tf.convert_to_tensor(mean) + (1 - spec.beta1) * gradient)
        square.assign(spec.beta2 * tf.convert_to_tensor(square) + (1 - spec.beta2) * tf.square(gradient))
        step = tf.cast(self.iterations + 1, gradient.dtype)
        beta1, beta2 = (tf.constant(beta, gradient.dtype) for beta in (spec.beta1, spec.beta2))
        root = tf.sqrt(tf.convert_to_tensor(square) / (1 - tf.pow(beta2, step))) + spec.epsilon
        move = tf.convert_to_tensor(mean) / (1 - tf.pow(beta1, step)) / root + decay * weight
        variable.assign_sub(self.rate_now(gradient.dtype) * _ratio(tf.norm(weight), tf.norm(move)) * move)


def _ratio(weight: tf.Tensor, move: tf.Tensor) -> tf.Tensor:
    return tf.where((weight > 0) & (move > 0), tf.math.divide_no_nan(weight, move), tf.ones_like(weight))
