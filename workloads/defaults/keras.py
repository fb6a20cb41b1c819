"""Defaults of a workload's `keras.py`, for Keras on any backend: import those that fit, and write the others."""

from __future__ import annotations

import keras
import numpy as np

from workloads.data.dataset import Array
from workloads.spec import Numbers


def import_weights(model: keras.Model, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    for name, variable in variables(model).items():
        variable.assign(weights[name].astype(variable.dtype))


def export_weights(model: keras.Model) -> dict[str, Array]:
    """A copy of every tensor in canonical layout, on the host."""
    tensors = {name: keras.ops.copy(variable) for name, variable in variables(model).items()}
    return {name: np.array(keras.ops.convert_to_numpy(tensor)) for name, tensor in tensors.items()}


def variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Canonical name to variable, in the order of ``model.trainable_variables``; the layouts are the canonical ones.

    Names are those of the innermost layer, or of it in the model's ``canonical_names``, and of the variable, or both
    there. Where two are alike, all have the names of the layers around them too, but for those that are "" there.
    """
    given, paths = getattr(model, "canonical_names", {}), []
    for variable in model.trainable_variables:
        *outer, layer, name = ("", *(part for part in variable.path.split("/") if part not in CELLS))
        own = given.get(f"{layer}/{name}", f"{given.get(layer, layer)}/{NAMES.get(name, name)}").rpartition("/")
        paths.append((*filter(None, (given.get(each, each) for each in outer)), own[0], own[2]))
    short = [path[-2:] for path in paths]
    names = map("/".join, short if len({*short}) == len(short) else paths)
    return dict(zip(names, model.trainable_variables, strict=True))


#: Canonical names that Keras spells otherwise, and the parts of its recurrent layers that hold the tensors.
NAMES = {"embeddings": "table", "gamma": "scale", "beta": "bias", "recurrent_kernel": "recurrent"}
CELLS = ("lstm_cell", "gru_cell", "simple_rnn_cell")


def policy(numbers: Numbers) -> str:
    """Keras' name of the types that its layers compute in and keep their weights in."""
    return numbers.compute if numbers.compute == numbers.weights else f"mixed_{numbers.compute}"
