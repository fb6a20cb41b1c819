"""A bare PyTorch loop: modules in a row, the loss of the documentation, ``zero_grad``, ``backward``, ``step``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, KERNEL, MEAN, CnnSpec
from workloads.data.dataset import Array
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec


def plain(spec: CnnSpec | LstmSpec, batches: list[tuple[Array, Array]], device: str) -> Callable[[int], None]:
    """A function that trains for a number of steps on the given batches in turn."""
    on_device = [tuple(torch.from_numpy(array).to(device) for array in batch) for batch in batches]
    settings: Any = spec.optimizer
    if isinstance(spec, CnnSpec):
        model, criterion = cnn(spec).to(device), nn.CrossEntropyLoss()
        optimizer: torch.optim.Optimizer = torch.optim.SGD(
            model.parameters(), lr=settings.learning_rate, momentum=settings.momentum, weight_decay=settings.l2
        )
        mean, deviation = (torch.tensor(values, device=device).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))

        def loss(inputs: Any, labels: Any) -> Any:
            images = (inputs.permute(0, 3, 1, 2).float() - mean) / deviation
            return criterion(model(images), labels.long())
    else:
        model, criterion = Lstm(spec).to(device), nn.BCEWithLogitsLoss()
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)

        def loss(inputs: Any, labels: Any) -> Any:
            return criterion(model(inputs), labels.float())

    def steps(count: int) -> None:
        for step in range(count):
            optimizer.zero_grad()
            loss(*on_device[step % len(on_device)]).backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return steps


def cnn(spec: CnnSpec) -> nn.Module:
    """Images (batch, 3, 32, 32) to logits."""
    layers: list[nn.Module] = []
    inputs = 3
    for outputs, rate in zip(spec.channels, spec.dropout, strict=True):
        layers += [nn.Conv2d(inputs, outputs, KERNEL, padding=1), nn.ReLU(), nn.Conv2d(outputs, outputs, KERNEL)]
        layers += [nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(rate)]
        inputs = outputs
    layers += [nn.Flatten(), nn.Linear(spec.features, spec.hidden), nn.ReLU(), nn.Dropout(spec.hidden_dropout)]
    return nn.Sequential(*layers, nn.Linear(spec.hidden, CLASSES))


class Lstm(nn.Module):
    """Tokens (batch, length) to logits (batch,)."""

    def __init__(self, spec: LstmSpec) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, spec.embedding)
        self.lstm = nn.LSTM(spec.embedding, spec.units, batch_first=True)
        self.logits = nn.Linear(spec.units, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        outputs, _ = self.lstm(self.embedding(tokens))
        return self.logits(outputs[:, -1]).squeeze(1)
