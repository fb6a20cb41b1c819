"""What JAX's `Training` shows of its layers for `suite.worker.evidence.proof`; nothing here is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from flax.traverse_util import flatten_dict

from workloads.data.dataset import Array
from workloads.spec import FROZEN


def count_trained(training: Any) -> int:
    """How many parameters the optimizer moves."""
    weights = jax.tree.leaves(training.state.weights)
    decays = jax.tree.leaves(training.decays) or [0.0] * len(weights)
    return sum(int(leaf.size) for leaf, decay in zip(weights, decays, strict=True) if decay != FROZEN)


@contextmanager
def calls(
    training: Any, note: Callable[[str], object] = str, of: Callable[..., Any] | None = None
) -> Iterator[list[tuple[str, Any, Any]]]:
    """A context that lists the calls of layers: path, first input and first output, channels last.

    After each it calls ``note`` with the path. In place of the arrays on the host stands what ``of`` makes of a tensor.
    """
    del training  # flax tells the calls of all modules
    listed: list[tuple[str, Any, Any]] = []
    take = of or _array

    def called(function: Any, arguments: Any, keywords: Any, context: Any) -> Any:
        output = function(*arguments, **keywords)
        if context.method_name == "__call__" and context.module.path:
            first = output[0] if isinstance(output, tuple | list) else output
            path = "/".join(context.module.path)
            listed.append((path, take(arguments[0] if arguments else None), take(first)))
            note(path)
        return output

    with nn.intercept_methods(called):
        yield listed


def load(training: Any, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    training.state = training.state._replace(weights=training.module.import_weights(training.model, weights))


def forward(training: Any, batch: Any) -> float:
    """The loss of a forward pass in training mode, with new dropout masks."""
    key, own = jax.random.split(training.state.key)
    training.state = training.state._replace(key=key)
    return float(training._loss(training.state.weights, training.state.statistics, own, *batch)[0])


def gradients(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """The loss and its gradient by canonical names, zeros where there is none."""
    found: tuple[float, dict[str, Array]] = training.gradients(batch)
    return found


def parameters_by_layer(training: Any) -> dict[str, list[Array]]:
    """The parameters of each layer by its path, in the layouts that they have there."""
    found: dict[str, list[Array]] = {}
    for path, array in flatten_dict(training.state.weights).items():
        found.setdefault("/".join(map(str, path[:-1])), []).append(np.asarray(array))
    return found


def statistics(training: Any) -> dict[str, dict[str, Array]]:
    """The running mean and variance of each layer that has them, by its path."""
    found: dict[str, dict[str, Array]] = {}
    for path, array in flatten_dict(training.state.statistics).items():
        name = {"mean": "mean", "var": "variance", "variance": "variance"}.get(str(path[-1]))
        if name:
            found.setdefault("/".join(map(str, path[:-1])), {})[name] = np.array(array)
    return {path: pair for path, pair in found.items() if len(pair) == 2}


def _array(tensor: Any) -> Array | None:
    if not isinstance(tensor, jax.Array) or isinstance(tensor, jax.core.Tracer):
        return None
    return np.array(tensor)
