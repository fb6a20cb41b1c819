"""What TensorFlow's `Training` shows of its layers for `suite.worker.evidence.proof`; nothing here is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from workloads.data.dataset import Array


def count_trained(training: Any) -> int:
    """How many parameters the optimizer moves."""
    return sum(int(np.prod(variable.shape)) for variable in training.trained)


@contextmanager
def building(note: Callable[[str], object]) -> Iterator[None]:
    """A context that notes the layers that a model is built of, by the name that begins their path."""
    call = keras.layers.Layer.__call__

    def called(layer: keras.layers.Layer, *arguments: Any, **keywords: Any) -> Any:
        output = call(layer, *arguments, **keywords)
        note(layer.name)
        return output

    keras.layers.Layer.__call__ = called
    try:
        yield
    finally:
        keras.layers.Layer.__call__ = call


@contextmanager
def calls(
    training: Any, note: Callable[[str], object] = str, of: Callable[..., Any] | None = None
) -> Iterator[list[tuple[str, Any, Any]]]:
    """A context that lists the calls of layers: path, first input and first output, channels last.

    After each it calls ``note`` with the path. In place of the arrays on the host stands what ``of`` makes of a tensor.
    The output of a layer with an ``activation`` is that before it, which is the output in the other frameworks.
    """
    listed: list[tuple[str, Any, Any]] = []
    layers, take = _layers(training.model), of or _array

    def recorded(path: str, layer: keras.layers.Layer) -> Any:
        call, activation = layer.call, vars(layer).get("activation")
        activated: list[Any] = []

        def noted(x: Any, *arguments: Any, **keywords: Any) -> Any:
            activated[:] = x, activation(x, *arguments, **keywords)
            return activated[1]

        def called(*arguments: Any, **keywords: Any) -> Any:
            if activation:
                object.__setattr__(layer, "activation", noted)
            try:
                output = call(*arguments, **keywords)
            finally:
                if activation:
                    object.__setattr__(layer, "activation", activation)
            first = output[0] if isinstance(output, tuple | list) else output
            first = activated[0] if activated and activated[1] is first else first
            listed.append((path, take(arguments[0] if arguments else None), take(first)))
            note(path)
            return output

        return called

    for path, layer in layers.items():
        # Past Keras' own attribute handling, which would track what is set.
        object.__setattr__(layer, "call", recorded(path, layer))
    try:
        yield listed
    finally:
        for layer in layers.values():
            object.__delattr__(layer, "call")


def load(training: Any, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    training.module.import_weights(training.model, weights)


def forward(training: Any, batch: Any) -> float:
    """The loss of a forward pass in training mode."""
    return float(training.module.loss(training.model, *batch))


def gradients(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """The loss and its gradient by canonical names, zeros where there is none."""
    names = training.module.variables(training.model)
    with tf.GradientTape() as tape:
        loss = training.module.loss(training.model, *batch)
    shares = tape.gradient(loss, [variable.value for variable in names.values()])
    zeros = [np.zeros(variable.shape) for variable in names.values()]
    arrays = [zero if g is None else tf.convert_to_tensor(g).numpy() for g, zero in zip(shares, zeros, strict=True)]
    trained = {id(variable) for variable in training.trained}
    each = zip(names.items(), arrays, zeros, strict=True)
    return float(loss), {name: own if id(variable) in trained else zero for (name, variable), own, zero in each}


def parameters_by_layer(training: Any) -> dict[str, list[Array]]:
    """The parameters of each layer by its path, in the layouts that they have there."""
    return {path: [weight.numpy() for weight in layer.weights] for path, layer in _layers(training.model).items()}


def statistics(training: Any) -> dict[str, dict[str, Array]]:
    """The running mean and variance of each layer that has them, by its path."""
    found: dict[str, dict[str, Array]] = {}
    for path, layer in _layers(training.model).items():
        by_name = {weight.name.removeprefix("moving_"): weight for weight in layer.non_trainable_weights}
        if {"mean", "variance"} <= by_name.keys():
            found[path] = {name: np.array(by_name[name].numpy()) for name in ("mean", "variance")}
    return found


def _layers(model: keras.Model) -> dict[str, keras.layers.Layer]:
    """Every layer by a path that is its own, the outer ones first."""
    layers = enumerate(model._flatten_layers(include_self=False))
    return {f"{layer.name}#{number}": layer for number, layer in layers}


def _array(tensor: Any) -> Array | None:
    return np.array(tensor.numpy()) if isinstance(tensor, tf.Tensor) and hasattr(tensor, "numpy") else None
