"""LARS and LAMB for optax: the arithmetic of `workloads.spec`, tensor by tensor.

optax's own `lars` divides by the norm of gradient and decay together, where the paper adds their norms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from workloads import spec as specs

#: A learning rate, or the one of each step by its number.
Rate = float | Callable[[jax.Array], jax.Array]


def optimizer(config: specs.Lars | specs.Lamb, rate: Rate, decays: Any = None) -> optax.GradientTransformation:
    """The optimizer of these settings at a learning rate."""
    start, update = (_lars_start, _lars) if isinstance(config, specs.Lars) else (_lamb_start, _lamb)
    return optax.GradientTransformation(start, partial(update, config, rate, decays=decays))  # type: ignore[arg-type]


def decays_of(config: specs.Optimizer, decays: Any, weights: Any) -> Any:
    """A tree like the weights with the decay of each: ``decays``, or those that the optimizer has by itself."""
    return jax.tree.map(lambda weight: config.decay_of(weight.shape), weights) if decays is None else decays


class LarsState(NamedTuple):
    """How many steps there were, and the velocity of each tensor."""

    count: jax.Array
    velocities: Any


def _lars_start(weights: Any) -> LarsState:
    return LarsState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, weights))


def _lars(
    spec: specs.Lars, rate: Rate, gradients: Any, state: LarsState, weights: Any, *, decays: Any
) -> tuple[Any, LarsState]:
    now = _now(rate, state.count, weights)

    def velocity(gradient: jax.Array, before: jax.Array, weight: jax.Array, l2: float) -> jax.Array:
        ratio = _ratio(_norm(weight), _norm(gradient) + l2 * _norm(weight))
        return spec.momentum * before + now * spec.coefficient * ratio * (gradient + l2 * weight)

    velocities = jax.tree.map(velocity, gradients, state.velocities, weights, decays_of(spec, decays, weights))
    return jax.tree.map(jnp.negative, velocities), LarsState(state.count + 1, velocities)


class LambState(NamedTuple):
    """How many steps there were, and the moments of each tensor's gradient."""

    count: jax.Array
    means: Any
    squares: Any


def _lamb_start(weights: Any) -> LambState:
    zeros = partial(jax.tree.map, jnp.zeros_like)
    return LambState(jnp.zeros((), jnp.int32), zeros(weights), zeros(weights))


def _lamb(
    spec: specs.Lamb, rate: Rate, gradients: Any, state: LambState, weights: Any, *, decays: Any
) -> tuple[Any, LambState]:
    now = _now(rate, state.count, weights)
    step = (state.count + 1).astype(jax.tree.leaves(weights)[0].dtype)
    means = jax.tree.map(lambda mean, g: spec.beta1 * mean + (1 - spec.beta1) * g, state.means, gradients)
    squares = jax.tree.map(lambda square, g: spec.beta2 * square + (1 - spec.beta2) * g**2, state.squares, gradients)

    def update(mean: jax.Array, square: jax.Array, weight: jax.Array, decay: float) -> jax.Array:
        root = jnp.sqrt(square / (1 - spec.beta2**step)) + spec.epsilon
        move = mean / (1 - spec.beta1**step) / root + decay * weight
        return -now * _ratio(_norm(weight), _norm(move)) * move

    moves = jax.tree.map(update, means, squares, weights, decays_of(spec, decays, weights))
    return moves, LambState(state.count + 1, means, squares)


def _now(rate: Rate, count: jax.Array, weights: Any) -> Any:
    """The rate of a step, in the type of the weights: a product with it must not be rounded to float32 first."""
    return rate(count).astype(jax.tree.leaves(weights)[0].dtype) if callable(rate) else rate


def _norm(array: jax.Array) -> jax.Array:
    """The L2 norm of a tensor: ()."""
    return jnp.sqrt(jnp.sum(array * array))


def _ratio(weight: jax.Array, move: jax.Array) -> jax.Array:
    """The quotient of two norms; 1 where one of them is zero."""
    both = (weight > 0) & (move > 0)
    return jnp.where(both, weight / jnp.where(both, move, 1), 1)
