"""Constants in float64 as they are: TensorFlow makes float32 of a Python number before it casts it to any type.

So do Keras' `Rescaling`, `Normalization`, `MultiHeadAttention`, GELU and leaky ReLU, which puts them 1e-10 to 1e-7 off.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import math_ops

#: Functions that a number only passes on its way from the layer or function that it belongs to.
PASSED = ("cast", "convert_to_tensor", "leaky_relu", "keep_exact")


@contextmanager
def exact() -> Iterator[dict[str, float]]:
    """A context in which Python's numbers stay exact in float64.

    It gives a dictionary, which gets those that float32 cannot hold: what they belong to, and by how much they would be
    off, relative.
    """
    rounded: dict[str, float] = {}
    cast, convert, leaky_relu = math_ops.cast, tf.convert_to_tensor, tf.nn.leaky_relu

    def keep_exact(value: Any) -> tf.Tensor:
        numbers = np.asarray(value, np.float64)
        off = np.abs(numbers.astype(np.float32) - numbers)
        if off.any() and (owner := _owner()):
            worst = np.unravel_index(off.argmax(), off.shape)
            rounded[f"{owner} {numbers[worst]:.6g}"] = float(off[worst] / abs(numbers[worst]))
        return tf.constant(numbers)

    def exact_cast(x: Any, dtype: Any, name: str | None = None) -> Any:
        if isinstance(x, float | list | tuple) and tf.as_dtype(dtype) == tf.float64:
            return keep_exact(x)
        return cast(x, dtype, name)

    def exact_convert(value: Any, dtype: Any = None, *arguments: Any, **keywords: Any) -> Any:
        if dtype is None and not keywords.get("dtype_hint") and _has_floats(value):
            return keep_exact(value)
        return convert(value, dtype, *arguments, **keywords)

    def exact_leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Any:
        if features.dtype != tf.float64:
            return leaky_relu(features, alpha, name)
        return tf.where(features > 0, features, keep_exact(alpha) * features)

    functions = [
        (math_ops, "cast", exact_cast), (tf, "cast", exact_cast), (tf, "convert_to_tensor", exact_convert),
        (tf.nn, "leaky_relu", exact_leaky_relu),
    ]  # fmt: skip
    previous = [(module, name, getattr(module, name)) for module, name, _ in functions]
    try:
        for module, name, function in functions:
            setattr(module, name, function)
        yield rounded
    finally:
        for module, name, function in previous:
            setattr(module, name, function)


def _has_floats(value: Any) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, float)


def _owner() -> str:
    """The layer or function that a number belongs to; empty for the bounds of random numbers, which weights replace."""
    frame: FrameType | None = sys._getframe(2)
    while frame and _passes(frame):
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.endswith("random.py"):
        return ""
    layer = frame.f_locals.get("self")
    return type(layer).__name__ if isinstance(layer, keras.layers.Layer) else frame.f_code.co_name


def _passes(frame: FrameType) -> bool:
    """Whether a number only passes this call; a private function is a part of the one that calls it."""
    name = frame.f_code.co_name
    return name.startswith("exact_") or name in PASSED or (name.startswith("_") and "self" not in frame.f_locals)
