from __future__ import annotations

import flax.linen as nn

from workloads.defaults.jax import export_weights, import_weights, kernels, logits, statistics
from workloads.defaults.jax import squared_loss as loss
from workloads.defaults.jax import squared_scores as scores

from .spec import CHANNELS, EPSILON, MOMENTUM

__all__ = ("build", "export_weights", "import_weights", "kernels", "logits", "loss", "scores", "statistics")


class Model(nn.Module):
    spec: object
    numbers: object

    @property
    def canonical_names(self):
        return {"length/grey/kernel/scale": "grey/scale"}

    @nn.compact
    def __call__(self, x, evaluating=False):
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        x = x.astype(self.numbers.weights)
        x = nn.Conv(CHANNELS, (3, 3), 2, 1, use_bias=False, name="down", **types)(x)
        x = nn.relu(nn.BatchNorm(evaluating, momentum=1 - MOMENTUM, epsilon=EPSILON, name="middle", **types)(x))
        x = nn.ConvTranspose(4, (4, 4), (2, 2), transpose_kernel=True, name="up", **types)(x)
        x = nn.LayerNorm(EPSILON, name="norm", **types)(x)
        grey = nn.Conv(2, (1, 1), name="grey", **types)
        weight_norm = nn.WeightNorm(grey, epsilon=0.0, variable_filter={"kernel"}, name="length", **types)
        return weight_norm(x).max(-1)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(spec, numbers)
