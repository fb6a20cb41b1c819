from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .spec import CLASSES, EPSILON, MOMENTUM, RATE


class Model(nn.Module):
    def __init__(self, dropout, dtype):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, dtype=dtype)
        self.conv2 = nn.Conv2d(4, 4, 3, stride=2, padding=1, bias=False, dtype=dtype)
        self.norm = nn.BatchNorm2d(4, eps=EPSILON, momentum=MOMENTUM, dtype=dtype)
        self.hidden = nn.Linear(64, 8, dtype=dtype)
        self.rate = RATE if dropout else 0.0
        self.middle = nn.Linear(8, 8, dtype=dtype)
        self.logits = nn.Linear(8, CLASSES, dtype=dtype)

    def forward(self, images):
        x = images.permute(0, 3, 1, 2).to(self.conv1.weight.dtype) / 128 - 1
        x = F.relu(self.conv1(x))
        x = F.relu(self.norm(self.conv2(x)))
        x = x.permute(0, 2, 3, 1).flatten(1)
        x = F.gelu(self.hidden(x))
        x = F.dropout(x, self.rate, self.training)
        x = F.relu(self.middle(x))
        return self.logits(x)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(dropout, getattr(torch, numbers.weights)).to(device)


def loss(model, images, labels):
    return F.cross_entropy(model(images), labels.long())


def scores(model, images, labels):
    logits, labels = model(images), labels.long()
    return F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels


def kernels(spec, numbers, device, kernel):
    return {}


def import_weights(model, weights):
    with torch.no_grad():
        for name, (parameter, layout) in _tensors(model).items():
            parameter.copy_(torch.from_numpy(weights[name].transpose(layout)))


def export_weights(model, of="data"):
    exported = {}
    for name, (parameter, layout) in _tensors(model).items():
        array = getattr(parameter, of).detach().cpu().numpy()
        exported[name] = array.transpose([layout.index(axis) for axis in range(array.ndim)]).copy()
    return exported


def _tensors(model):
    return {
        "conv1/kernel": (model.conv1.weight, [3, 2, 0, 1]),
        "conv1/bias": (model.conv1.bias, [0]),
        "conv2/kernel": (model.conv2.weight, [3, 2, 0, 1]),
        "norm/scale": (model.norm.weight, [0]),
        "norm/shift": (model.norm.bias, [0]),
        "hidden/kernel": (model.hidden.weight, [1, 0]),
        "hidden/bias": (model.hidden.bias, [0]),
        "middle/kernel": (model.middle.weight, [1, 0]),
        "middle/bias": (model.middle.bias, [0]),
        "logits/kernel": (model.logits.weight, [1, 0]),
        "logits/bias": (model.logits.bias, [0]),
    }
