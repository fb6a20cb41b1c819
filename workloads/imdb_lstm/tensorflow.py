"""`imdb_lstm` in TensorFlow: the Keras 3 LSTM layer, which is cuDNN's on CUDA.

``use_cudnn=True`` makes Keras raise where it would fall back to another kernel in silence.
"""

from __future__ import annotations

import keras

from workloads.defaults.tensorflow import binary_loss as loss
from workloads.defaults.tensorflow import binary_scores as scores
from workloads.defaults.tensorflow import export_weights, import_weights, policy, variables
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.spec import Numbers

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores", "stages", "variables")


def build(
    spec: LstmSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    any_length: bool = False,
) -> keras.Model:  # fmt: skip
    cudnn = kernels(spec, numbers, device, kernel)["lstm"] == "cudnn"
    dtype = policy(numbers)
    layers = keras.layers
    # Keras casts to what is written here, and on a GPU kernels take int32 in the host's memory only.
    tokens = "int64" if device == "cuda" else "int32"
    return keras.Sequential(
        [
            keras.Input((None if any_length else spec.length,), dtype=tokens),
            layers.Embedding(VOCABULARY, spec.embedding, name="embedding", dtype=dtype),
            layers.LSTM(
                spec.units,
                use_cudnn=cudnn,
                name="lstm",
                dtype=dtype,
            ),
            layers.Dense(1, name="logits", dtype=dtype),
        ]
    )


def stages(model: keras.Model) -> list[list[keras.layers.Layer]]:
    return [model.layers[:1], model.layers[1:]]


def kernels(spec: LstmSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    if kernel == "auto":
        kernel = "cudnn" if device == "cuda" else "scan"
    return {"lstm": kernel}
