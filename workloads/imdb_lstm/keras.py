"""`imdb_lstm` in Keras on any backend: the layers that the interface `keras` trains.

Its LSTM layer takes cuDNN's by itself where the backend offers that, and else a loop over the time steps.
"""

from __future__ import annotations

from typing import Any

import keras

from workloads.defaults.keras import export_weights, import_weights, policy, variables
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.spec import Numbers

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores", "variables")

#: `use_cudnn` of the layer, by the cell's kernel.
CUDNN = {"auto": "auto", "cudnn": True, "scan": False}


def build(
    spec: LstmSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto"
) -> keras.Model:
    dtype = policy(numbers)
    layers = keras.layers
    # As TensorFlow's kernels on a GPU want them.
    tokens = "int64" if device == "cuda" and keras.backend.backend() == "tensorflow" else "int32"
    return keras.Sequential(
        [
            keras.Input((spec.length,), dtype=tokens),
            layers.Embedding(VOCABULARY, spec.embedding, name="embedding", dtype=dtype),
            layers.LSTM(spec.units, use_cudnn=CUDNN[kernel], name="lstm", dtype=dtype),
            layers.Dense(1, name="logits", dtype=dtype),
        ]
    )


def loss(dtype: str) -> keras.losses.Loss:
    return keras.losses.BinaryCrossentropy(from_logits=True, dtype=dtype)


def scores(logits: Any, labels: Any) -> tuple[Any, Any]:
    logits = keras.ops.squeeze(logits, 1)
    losses = keras.ops.binary_crossentropy(keras.ops.cast(labels, logits.dtype), logits, from_logits=True)
    return losses, (logits > 0) == (labels > 0)


def kernels(spec: LstmSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    if kernel == "auto":  # on a GPU Keras decides, and does not say
        return {"lstm": "auto" if device == "cuda" else "scan"}
    return {"lstm": kernel}
