"""The spec's optimizers in JAX: optax has their formulas, but for three.

Its Adagrad has epsilon in the root, and its LARS divides by the norm of gradient and decay together, where the paper
adds their norms; LAMB stands beside LARS.

The spec's rate is a part of the state, so that a compiled step serves any; those of all steps are a table in it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from suite.worker.frameworks import mark_tensors, read_mark
from workloads import spec as specs
from workloads.data.dataset import Array
from workloads.optimizers import Rates
from workloads.spec import FROZEN, LAYERWISE, Adagrad, AdamW, Optimizer, RmsProp, Sgd, WorkloadSpec

#: A learning rate, or the one of each step by its number.
Rate = float | Callable[[jax.Array], jax.Array]


def find_decays(module: ModuleType, model: Any, spec: WorkloadSpec) -> Any:
    """A tree like the weights with the decay of each, as that of the spec's tensor; None where shapes say it."""
    if not (marks := mark_tensors(spec)):
        return None
    marked = jax.device_get(module.import_weights(model, marks))
    usual = spec.optimizer.decay_of
    return jax.tree.map(lambda each: read_mark(spec, float(each.min()), float(each.max()), usual(each.shape)), marked)


def zero_frozen(gradients: Any, decays: Any) -> Any:
    """The gradients with zeros for what is not trained, as the other frameworks have them."""
    return gradients if decays is None else jax.tree.map(lambda g, decay: g * (decay != FROZEN), gradients, decays)


def optimizer(spec: WorkloadSpec, rates: Array | None, decays: Any = None) -> optax.GradientTransformation:
    """The spec's optimizer; ``rates`` are the learning rates of all steps, where they are not its own.

    ``decays`` are those of `find_decays`.
    """
    every: Any = spec.optimizer.rates if rates is None else rates
    if every is None:
        injected = optax.inject_hyperparams(partial(_of, spec.optimizer, decays))
        return injected(learning_rate=spec.optimizer.learning_rate)
    table, last = np.asarray(every), len(every) - 1
    at = partial(jnp.minimum, last) if isinstance(every, Rates) else lambda count: count
    return _of(spec.optimizer, decays, lambda count: jnp.asarray(table)[at(count)])


def _of(config: Optimizer, decays: Any, learning_rate: Any) -> optax.GradientTransformation:
    stays = jax.tree.map(lambda decay: decay == FROZEN, decays)
    if frozen := any(jax.tree.leaves(stays)):
        decays = jax.tree.map(lambda decay: optax.MaskedNode() if decay == FROZEN else decay, decays)
    made = _rule(config, decays, learning_rate)
    if config.clip_norm is not None:
        made = optax.chain(optax.clip_by_global_norm(config.clip_norm), made)
    if config.clip_value is not None:
        made = optax.chain(optax.clip(config.clip_value), made)
    return optax.multi_transform({False: made, True: optax.set_to_zero()}, stays) if frozen else made


def _rule(config: Optimizer, decays: Any, learning_rate: Any) -> optax.GradientTransformation:
    if isinstance(config, LAYERWISE):
        start, update = (_lars_start, _lars) if isinstance(config, specs.Lars) else (_lamb_start, _lamb)
        return optax.GradientTransformation(start, partial(update, config, learning_rate, decays=decays))  # type: ignore[arg-type]

    def decay(updates: Any, weights: Any) -> Any:
        each = decays_of(config, decays, weights)
        return jax.tree.map(lambda move, weight, own: move + own * weight if own else move, updates, weights, each)

    decayed, rated = optax.stateless(decay), optax.scale_by_learning_rate(learning_rate)
    if isinstance(config, Sgd):
        return optax.chain(decayed, optax.sgd(learning_rate, momentum=config.momentum, nesterov=config.nesterov))
    if isinstance(config, RmsProp):
        scaled = optax.scale_by_rms(config.rho, config.epsilon, eps_in_sqrt=False)
        return optax.chain(decayed, scaled, optax.trace(config.momentum), rated)
    if isinstance(config, Adagrad):
        return optax.chain(decayed, _adagrad(config), rated)
    adam = optax.scale_by_adam(b1=config.beta1, b2=config.beta2, eps=config.epsilon)
    if isinstance(config, AdamW):
        return optax.chain(adam, decayed, rated)
    return optax.chain(adam, rated) if config.l2 is None else optax.chain(decayed, adam, rated)


def _adagrad(config: Adagrad) -> optax.GradientTransformation:
    """What optax has as `scale_by_rss`, with the epsilon behind the root."""

    def start(weights: Any) -> optax.ScaleByRssState:
        return optax.ScaleByRssState(jax.tree.map(lambda weight: jnp.full_like(weight, config.start), weights))

    def update(gradients: Any, state: optax.ScaleByRssState, weights: Any = None) -> tuple[Any, optax.ScaleByRssState]:
        del weights
        sums = jax.tree.map(lambda gradient, past: past + gradient**2, gradients, state.sum_of_squares)
        moves = jax.tree.map(lambda gradient, each: gradient / (jnp.sqrt(each) + config.epsilon), gradients, sums)
        return moves, optax.ScaleByRssState(sums)

    return optax.GradientTransformation(start, update)


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
    return jnp.sqrt(jnp.sum(array * array))


def _ratio(weight: jax.Array, move: jax.Array) -> jax.Array:
    both = (weight > 0) & (move > 0)
    return jnp.where(both, weight / jnp.where(both, move, 1), 1)
