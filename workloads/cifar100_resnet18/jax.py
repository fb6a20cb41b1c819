"""`cifar100_resnet18` in JAX: a flax module with `nn.BatchNorm`, whose running statistics are state beside the weights.

flax's running variance is biased, which `loss` corrects. Padding is explicit, because "SAME" with stride 2 pads on one
side only.
"""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from workloads.cifar100_cnn.spec import DEVIATION, MEAN
from workloads.cifar100_resnet18.spec import CLASSES, EPSILON, MOMENTUM, Convolution, ResNetSpec
from workloads.defaults.jax import evaluate as answers
from workloads.defaults.jax import export_weights, import_weights, kernels, logits, loss, recompute, scores, statistics
from workloads.spec import Numbers

__all__ = (
    "ResNet", "answers", "build", "export_weights", "import_weights", "kernels", "logits", "loss", "scores",
    "statistics",
)  # fmt: skip


class ResNet(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    spec: ResNetSpec
    numbers: Numbers
    checkpointing: bool = False

    @nn.compact
    def __call__(self, images: jax.Array, evaluating: bool = False) -> jax.Array:
        mean, deviation = (jnp.asarray(values, self.numbers.weights) for values in (MEAN, DEVIATION))
        x = (images.astype(self.numbers.weights) - mean) / deviation
        x = nn.relu(self._normalise(self.spec.stem, evaluating, x))
        for convolutions in self.spec.blocks:
            block = partial(_block, convolutions, evaluating)
            x = (recompute(block) if self.checkpointing else block)(self, x)
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        return nn.Dense(CLASSES, name="logits", **types)(x.mean((1, 2)))

    @property
    def canonical_names(self) -> dict[str, str]:
        """Canonical names of what stands elsewhere: batch normalisation is a module, and its shift is a bias."""
        own = [(f"{c.name}_normalisation", c.name) for c in self.spec.convolutions]
        names = {f"{layer}/scale": f"{name}/scale" for layer, name in own}
        return names | {f"{layer}/bias": f"{name}/shift" for layer, name in own}

    def _normalise(self, c: Convolution, evaluating: bool, x: jax.Array) -> jax.Array:
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        kernel, stride, padding = (c.kernel, c.kernel), (c.stride, c.stride), c.kernel // 2
        x = nn.Conv(c.outputs, kernel, stride, padding, use_bias=False, name=c.name, **types)(x)
        normalisation = nn.BatchNorm(
            use_running_average=evaluating, momentum=1 - MOMENTUM, epsilon=EPSILON,
            name=f"{c.name}_normalisation", **types,
        )  # fmt: skip
        return normalisation(x)


def _block(convolutions: list[Convolution], evaluating: bool, model: ResNet, x: jax.Array) -> jax.Array:
    """Two normalised convolutions of the model beside a shortcut."""
    first, second, *shortcut = convolutions
    y = model._normalise(second, evaluating, nn.relu(model._normalise(first, evaluating, x)))
    return nn.relu(y + (model._normalise(shortcut[0], evaluating, x) if shortcut else x))


def build(
    spec: ResNetSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> ResNet:  # fmt: skip
    return ResNet(spec, numbers, checkpointing)
