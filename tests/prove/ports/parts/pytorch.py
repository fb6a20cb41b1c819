from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .spec import CLASSES, EPSILON, HEADS, SMOOTHING, UNITS, WIDTH

PARTS = ("query", "key", "value")


class Model(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1, dtype=dtype)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, dtype=dtype)
        self.norm = nn.BatchNorm2d(4, eps=EPSILON, momentum=0.0, dtype=dtype)
        self.up = nn.ConvTranspose2d(4, WIDTH, 3, stride=2, padding=1, output_padding=1, dtype=dtype)
        self.mean = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype)
        self.root = nn.RMSNorm(WIDTH, eps=1e-6, dtype=dtype)
        self.lstm = nn.LSTM(WIDTH, UNITS, 2, batch_first=True, dtype=dtype)
        for name in ("bias_hh_l0", "bias_hh_l1"):
            getattr(self.lstm, name).requires_grad_(False).zero_()
        self.hidden = nn.Linear(UNITS, WIDTH, dtype=dtype)
        self.logits = nn.Linear(WIDTH, CLASSES, dtype=dtype)

    def forward(self, images):
        x = images.permute(0, 3, 1, 2).to(self.conv1.weight.dtype) / 127.5 - 1
        x = self.pool(F.relu(self.conv1(x)))
        x = F.leaky_relu(self.norm(self.conv2(x)), 0.2)
        x = self.mean(self.up(x)).flatten(2).mT
        x = self.root(x + self.attention(x, x, x, need_weights=False)[0])
        x = F.gelu(self.hidden(self.lstm(x)[0][:, -1]))
        return self.logits(x)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(getattr(torch, numbers.weights)).to(device)


def loss(model, images, labels):
    return F.cross_entropy(model(images), labels.long(), label_smoothing=SMOOTHING)


def scores(model, images, labels):
    logits, labels = model(images), labels.long()
    return F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels


def kernels(spec, numbers, device, kernel):
    return {}


def import_weights(model, weights):
    flat = {name: array.reshape(_shape(name, array)) for name, array in weights.items()}
    for part in ("kernel", "bias"):
        flat[f"attention/{part}"] = np.concatenate([flat[f"attention/{name}/{part}"] for name in PARTS], -1)
    with torch.no_grad():
        for name, (parameter, layout) in _tensors(model).items():
            parameter.copy_(torch.from_numpy(flat[name].transpose(layout)))


def export_weights(model, of="data"):
    exported = {}
    for name, (parameter, layout) in _tensors(model).items():
        array = getattr(parameter, of).detach().cpu().numpy()
        exported[name] = array.transpose([layout.index(axis) for axis in range(array.ndim)]).copy()
    for part, axes in (("kernel", (WIDTH, HEADS, -1)), ("bias", (HEADS, -1))):
        parts = np.split(exported.pop(f"attention/{part}"), 3, -1)
        exported |= {f"attention/{name}/{part}": each.reshape(axes) for name, each in zip(PARTS, parts, strict=True)}
    exported["attention/out/kernel"] = exported["attention/out/kernel"].reshape(HEADS, -1, WIDTH)
    return exported


def _shape(name, array):
    """The kernels of an attention as matrices, and its biases as vectors."""
    if not name.startswith("attention"):
        return array.shape
    return (WIDTH, WIDTH) if name.endswith("kernel") else (WIDTH,)


def _tensors(model):
    attention, lstm = model.attention, model.lstm
    tensors = {
        "conv1/kernel": (model.conv1.weight, [3, 2, 0, 1]),
        "conv2/kernel": (model.conv2.weight, [3, 2, 0, 1]),
        "up/kernel": (model.up.weight, [3, 2, 0, 1]),
        "norm/scale": (model.norm.weight, [0]),
        "norm/shift": (model.norm.bias, [0]),
        "root/scale": (model.root.weight, [0]),
        "attention/kernel": (attention.in_proj_weight, [1, 0]),
        "attention/bias": (attention.in_proj_bias, [0]),
        "attention/out/kernel": (attention.out_proj.weight, [1, 0]),
        "attention/out/bias": (attention.out_proj.bias, [0]),
        "hidden/kernel": (model.hidden.weight, [1, 0]),
        "logits/kernel": (model.logits.weight, [1, 0]),
    }
    for number in (0, 1):
        tensors[f"lstm{number + 1}/kernel"] = getattr(lstm, f"weight_ih_l{number}"), [1, 0]
        tensors[f"lstm{number + 1}/recurrent"] = getattr(lstm, f"weight_hh_l{number}"), [1, 0]
        tensors[f"lstm{number + 1}/bias"] = getattr(lstm, f"bias_ih_l{number}"), [0]
    layers = {name: getattr(model, name) for name in ("conv1", "conv2", "up", "hidden", "logits")}
    return tensors | {f"{name}/bias": (layer.bias, [0]) for name, layer in layers.items()}
