from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .spec import EPSILON, UNITS, WIDTH, WORDS


class Model(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH, dtype=dtype)
        self.near = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, dtype=dtype)
        self.lstm = nn.LSTM(WIDTH, UNITS, batch_first=True, dtype=dtype)
        self.lstm.bias_hh_l0.requires_grad_(False).zero_()
        self.words = nn.Linear(WIDTH, UNITS, dtype=dtype)
        self.norm = nn.LayerNorm(UNITS, eps=EPSILON, dtype=dtype)
        self.logits = nn.Linear(UNITS, 2, dtype=dtype)

    def forward(self, tokens):
        e = self.embedding(tokens)
        e = e + F.relu(self.near(e.mT)).mT
        _, (state, _) = self.lstm(e)
        there = (tokens != 0).unsqueeze(2)
        mean = (e * there).sum(1) / there.sum(1)
        return self.logits(self.norm(state[-1] + F.relu(self.words(mean))))


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(getattr(torch, numbers.weights)).to(device)


def loss(model, tokens, labels):
    return F.cross_entropy(model(tokens), labels.long())


def scores(model, tokens, labels):
    logits, labels = model(tokens), labels.long()
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
        "embedding/table": (model.embedding.weight, [0, 1]),
        "near/kernel": (model.near.weight, [2, 1, 0]),
        "near/bias": (model.near.bias, [0]),
        "lstm/kernel": (model.lstm.weight_ih_l0, [1, 0]),
        "lstm/recurrent": (model.lstm.weight_hh_l0, [1, 0]),
        "lstm/bias": (model.lstm.bias_ih_l0, [0]),
        "words/kernel": (model.words.weight, [1, 0]),
        "words/bias": (model.words.bias, [0]),
        "norm/scale": (model.norm.weight, [0]),
        "norm/shift": (model.norm.bias, [0]),
        "logits/kernel": (model.logits.weight, [1, 0]),
        "logits/bias": (model.logits.bias, [0]),
    }
