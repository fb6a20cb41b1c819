"""`cifar100_cnn` in flax.nnx, channels last, which is the canonical layout: what the interface `nnx` trains."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, KERNEL, MEAN, CnnSpec
from workloads.defaults import kernels
from workloads.defaults.nnx import export_weights, import_weights
from workloads.spec import Numbers

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores")


class Cnn(nnx.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    def __init__(self, spec: CnnSpec, numbers: Numbers, dropout: bool, rngs: nnx.Rngs) -> None:
        self.numbers = numbers
        options = {"dtype": numbers.compute, "param_dtype": numbers.weights, "rngs": rngs}
        options["kernel_init"] = nnx.initializers.zeros_init()  # the weights come from `import_weights`
        window = (KERNEL, KERNEL)
        for (name, inputs, outputs, _), padding in zip(spec.layers, ("SAME", "VALID") * len(spec.dropout), strict=True):
            setattr(self, name, nnx.Conv(inputs, outputs, window, padding=padding, **options))
        self.blocks = [name for name, *_ in spec.layers]
        rates = (*spec.dropout, spec.hidden_dropout)
        self.dropouts = nnx.List([nnx.Dropout(rate, deterministic=not dropout, rngs=rngs) for rate in rates])
        self.hidden = nnx.Linear(spec.features, spec.hidden, **options)
        self.logits = nnx.Linear(spec.hidden, CLASSES, **options)

    def __call__(self, images: jax.Array) -> jax.Array:
        mean, deviation = (jnp.asarray(values, self.numbers.weights) for values in (MEAN, DEVIATION))
        x = (images.astype(self.numbers.weights) - mean) / deviation
        *after_blocks, after_hidden = self.dropouts
        for first, second, dropout in zip(self.blocks[::2], self.blocks[1::2], after_blocks, strict=True):
            x = nnx.relu(getattr(self, second)(nnx.relu(getattr(self, first)(x))))
            x = dropout(nnx.max_pool(x, (2, 2), strides=(2, 2)))
        x = nnx.relu(self.hidden(x.reshape(len(x), -1)))
        return self.logits(after_hidden(x))


def build(
    spec: CnnSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto", *, rngs: nnx.Rngs
) -> Cnn:
    return Cnn(spec, numbers, dropout, rngs)


def loss(model: Cnn, images: jax.Array, labels: jax.Array) -> jax.Array:
    return scores(model, images, labels)[0].mean()


def scores(model: Cnn, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    output = model(images).astype(model.numbers.weights)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels), output.argmax(1) == labels
