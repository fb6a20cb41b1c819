from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from workloads.defaults.pytorch import export_weights, import_weights, kernels
from workloads.defaults.pytorch import squared_loss as loss
from workloads.defaults.pytorch import squared_scores as scores

from .spec import CHANNELS, EPSILON, MOMENTUM

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores")


class Model(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, CHANNELS, 3, 2, 1, bias=False, dtype=dtype),
            nn.BatchNorm2d(CHANNELS, EPSILON, MOMENTUM, dtype=dtype),
        )
        self.up = nn.ConvTranspose2d(CHANNELS, 4, 4, 2, 1, dtype=dtype)
        self.norm = nn.LayerNorm(4, EPSILON, dtype=dtype)
        self.grey = weight_norm(nn.Conv2d(4, 2, 1, dtype=dtype))
        self.canonical_names = {"encoder.0": "down", "encoder.1": "middle"}

    def forward(self, images):
        x = F.relu(self.encoder(images.permute(0, 3, 1, 2).to(self.up.weight.dtype)))
        x = self.norm(self.up(x).permute(0, 2, 3, 1))
        return self.grey(x.permute(0, 3, 1, 2)).amax(1)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(getattr(torch, numbers.weights)).to(device)
