from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from workloads.defaults.pytorch import export_weights, import_weights, kernels, unpack

from .spec import BAG, CLASSES, NUMBERS, PARTS, WIDTH, WORDS

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores")


class Model(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        features, options = 2 * WIDTH + BAG + NUMBERS, {"batch_first": True, "dtype": dtype}
        self.words = nn.Embedding(WORDS, WIDTH, dtype=dtype)
        self.bag = nn.EmbeddingBag(WORDS, BAG, mode="mean", dtype=dtype)
        self.gru = nn.GRU(WIDTH, WIDTH, **options)
        self.lstm = nn.LSTM(WIDTH, WIDTH // 2, 2, bidirectional=True, **options)
        self.norm = nn.RMSNorm(WIDTH, 1e-6, dtype=dtype)
        self.head = nn.Linear(features, CLASSES, dtype=dtype)
        self.value = nn.Linear(features, 1, dtype=dtype)
        self.next = nn.Linear(WIDTH, WORDS, bias=False, dtype=dtype)
        self.next.weight = self.words.weight

    def forward(self, inputs):
        words, numbers = unpack(inputs, PARTS)
        x = self.words(words)
        state = self.norm(self.gru(x)[0][:, -1])
        both = self.lstm(x)[0]
        both = torch.cat([both[:, -1, : WIDTH // 2], both[:, 0, WIDTH // 2 :]], 1)
        features = torch.cat([state, both, self.bag(words), numbers.to(x.dtype)], 1)
        return self.head(features), self.next(state), self.value(features)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(getattr(torch, numbers.weights)).to(device)


def loss(model, inputs, labels):
    return scores(model, inputs, labels)[0].mean()


def scores(model, inputs, labels):
    kind, word, value = model(inputs)
    kinds, words = labels[:, 0].long(), labels[:, 1].long()
    losses = F.cross_entropy(kind, kinds, reduction="none") + F.cross_entropy(word, words, reduction="none")
    return losses + (value[:, 0] - labels[:, 2]).square(), kind.argmax(1) == kinds
