"""`cifar100_resnet18` in JAX: a flax module with `nn.BatchNorm`, whose running statistics are state beside the weights.

flax's running variance is biased, which `loss` corrects. Padding is explicit, because "SAME" with stride 2 pads on one
side only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict

from workloads.checkpointing.jax import recompute
from workloads.cifar100_cnn.spec import DEVIATION, MEAN
from workloads.cifar100_resnet18.spec import CLASSES, EPSILON, MOMENTUM, Convolution, ResNetSpec
from workloads.data.dataset import Array
from workloads.spec import Numbers

Tree = dict[str, Any]


class ResNet(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    spec: ResNetSpec
    numbers: Numbers
    checkpointing: bool = False
    evaluating: bool = False  # with the running statistics, which then stay as they are

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        mean, deviation = (jnp.asarray(values, self.numbers.weights) for values in (MEAN, DEVIATION))
        x = nn.relu(self._normalise(self.spec.stem, (images.astype(self.numbers.weights) - mean) / deviation))
        for convolutions in self.spec.blocks:
            block = partial(_block, convolutions)
            x = (recompute(block) if self.checkpointing else block)(self, x)
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        return nn.Dense(CLASSES, name="logits", **types)(x.mean((1, 2)))

    def _normalise(self, c: Convolution, x: jax.Array) -> jax.Array:
        """A convolution and the batch normalisation after it."""
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        kernel, stride, padding = (c.kernel, c.kernel), (c.stride, c.stride), c.kernel // 2
        x = nn.Conv(c.outputs, kernel, stride, padding, use_bias=False, name=c.name, **types)(x)
        normalisation = nn.BatchNorm(
            use_running_average=self.evaluating, momentum=1 - MOMENTUM, epsilon=EPSILON,
            name=f"{c.name}_normalisation", **types,
        )  # fmt: skip
        return normalisation(x)


def _block(convolutions: list[Convolution], model: ResNet, x: jax.Array) -> jax.Array:
    """Two normalised convolutions of the model beside a shortcut."""
    first, second, *shortcut = convolutions
    y = model._normalise(second, nn.relu(model._normalise(first, x)))
    return nn.relu(y + (model._normalise(shortcut[0], x) if shortcut else x))


def build(
    spec: ResNetSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> ResNet:  # fmt: skip
    """The module; its weights come from `import_weights`; it has no dropout to switch off."""
    return ResNet(spec, numbers, checkpointing)


def logits(model: ResNet, weights: Tree, statistics: Tree, images: jax.Array) -> jax.Array:
    """The model's output in training, (b, 100)."""
    return model.apply({"params": weights, "batch_stats": statistics}, images, mutable=["batch_stats"])[0]


def loss(
    model: ResNet, weights: Tree, statistics: Tree, key: jax.Array, images: jax.Array, labels: jax.Array
) -> tuple[jax.Array, Tree]:
    """Softmax cross entropy of uint8 images (b, 32, 32, 3) and int32 labels (b,), averaged over the batch."""
    del key  # the model draws nothing
    variables = {"params": weights, "batch_stats": statistics}
    output, changed = model.apply(variables, images, mutable=["batch_stats"])
    output = output.astype(model.numbers.weights)
    after = _correct_variance(model.spec, statistics, changed["batch_stats"], len(images))
    return optax.softmax_cross_entropy_with_integer_labels(output, labels).mean(), after


def scores(
    model: ResNet, weights: Tree, statistics: Tree, images: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,); with running statistics."""
    output = answers(model, weights, statistics, images).astype(model.numbers.weights)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels), output.argmax(1) == labels


def answers(model: ResNet, weights: Tree, statistics: Tree, images: jax.Array) -> jax.Array:
    """The model's output in evaluation, with running statistics, (b, 100)."""
    return model.clone(evaluating=True).apply({"params": weights, "batch_stats": statistics}, images)


def _correct_variance(spec: ResNetSpec, before: Tree, after: Tree, batch: int) -> Tree:
    """Statistics whose running variance took the batch's unbiased variance, as the other frameworks' do.

    flax takes the biased one, which is smaller by (n - 1) / n over n = batch x height x width values.
    """
    corrected = {}
    for c in spec.convolutions:
        name = f"{c.name}_normalisation"
        variance = after[name]["var"]
        contribution = variance - (1 - MOMENTUM) * before[name]["var"]  # of this batch, times MOMENTUM
        corrected[name] = {**after[name], "var": variance + contribution / (batch * c.side**2 - 1)}
    return corrected


def kernels(spec: ResNetSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice."""
    return {}


def statistics(model: ResNet) -> Tree:
    """What training changes besides the weights, at its start: running means of 0 and variances of 1."""
    dtype = model.numbers.weights  # where flax itself would start in float32
    start = {"mean": np.zeros, "var": np.ones}
    arrays = {
        f"{c.name}_normalisation": {name: make(c.outputs, dtype) for name, make in start.items()}
        for c in model.spec.convolutions
    }
    return jax.device_put(arrays, may_alias=False)


def import_weights(model: ResNet, weights: dict[str, Array]) -> Tree:
    """The module's parameter tree, on the device, from canonical weights."""
    dtype = model.numbers.weights  # converted by NumPy: JAX would compile a program for each shape
    arrays = {_own_name(name): np.asarray(array, dtype) for name, array in weights.items()}
    return unflatten_dict(jax.device_put(arrays, may_alias=False), sep="/")


def export_weights(model: ResNet, weights: Tree) -> dict[str, Array]:
    """A copy of every tensor of a parameter tree (or of its gradient) in canonical layout, on the host."""
    flat = flatten_dict(weights, sep="/")
    return {tensor.name: np.array(flat[_own_name(tensor.name)]) for tensor in model.spec.tensors}


def _own_name(name: str) -> str:
    """The module's name of a canonical one: batch normalisation is a module of its own, and its shift is a bias."""
    layer, tensor = name.split("/")
    if tensor in ("scale", "shift"):
        return f"{layer}_normalisation/{'scale' if tensor == 'scale' else 'bias'}"
    return name
