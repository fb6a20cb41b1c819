"""A bare PyTorch loop: modules in a row, the loss of the documentation, ``zero_grad``, ``backward``, ``step``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, KERNEL, MEAN, CnnSpec
from workloads.data.dataset import Array
from workloads.gpt_small.spec import EPSILON, GptSpec
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.imdb_transformer.spec import PADDING, TransformerSpec

Spec = CnnSpec | LstmSpec | TransformerSpec | GptSpec


def train(spec: Spec, batches: list[tuple[Array, Array]], device: str) -> Callable[[int], None]:
    """A function that trains for a number of steps on the given batches in turn."""
    on_device = [tuple(torch.from_numpy(array).to(device) for array in batch) for batch in batches]
    settings: Any = spec.optimizer
    model = network(spec, device)
    optimizer: torch.optim.Optimizer
    binary = isinstance(spec, LstmSpec | TransformerSpec)
    criterion: nn.Module = nn.BCEWithLogitsLoss() if binary else nn.CrossEntropyLoss()
    if isinstance(spec, CnnSpec):
        optimizer = torch.optim.SGD(
            model.parameters(), lr=settings.learning_rate, momentum=settings.momentum, weight_decay=settings.l2
        )
    elif isinstance(spec, LstmSpec):
        optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    else:
        betas = settings.beta1, settings.beta2
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.learning_rate, betas=betas, weight_decay=settings.decay
        )

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        outputs = model(inputs)
        if binary:
            return criterion(outputs, labels.float())
        return criterion(outputs.flatten(0, -2), labels.flatten().long())

    def steps(count: int) -> None:
        for step in range(count):
            optimizer.zero_grad()
            loss(*on_device[step % len(on_device)]).backward()
            optimizer.step()
        _wait(device)

    return steps


def serve(spec: Spec, inputs: list[Array], device: str) -> Callable[[int], None]:
    """A function that passes the given inputs through the model in turn, a number of times; of a GPT the last word."""
    on_device = [torch.from_numpy(array).to(device) for array in inputs]
    model = network(spec, device).eval()
    forward = partial(model, last=True) if isinstance(spec, GptSpec) else model

    @torch.inference_mode()
    def steps(count: int) -> None:
        for step in range(count):
            forward(on_device[step % len(on_device)])
        _wait(device)

    return steps


def decode(spec: GptSpec, words: Array, device: str) -> Callable[[int], None]:
    """A function that writes a window after words (b, 1), a number of times, with the keys and values of all before."""
    first = torch.from_numpy(words).to(device)
    model = network(spec, device).eval()

    @torch.inference_mode()
    def steps(count: int) -> None:
        for _ in range(count):
            tokens = first
            caches: list[list[Tensor]] = [[] for _ in range(spec.layers)]
            for _ in range(spec.length):
                tokens = model(tokens, last=True, caches=caches).argmax(-1, keepdim=True)
        _wait(device)

    return steps


def network(spec: Spec, device: str) -> nn.Module:
    """The model of a workload."""
    made = {CnnSpec: Cnn, LstmSpec: Lstm, TransformerSpec: Encoder, GptSpec: Gpt}[type(spec)]
    return made(spec).to(device)


class Cnn(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    def __init__(self, spec: CnnSpec) -> None:
        super().__init__()
        for name, values in (("mean", MEAN), ("deviation", DEVIATION)):
            self.register_buffer(name, torch.tensor(values).view(1, 3, 1, 1))
        layers: list[nn.Module] = []
        inputs = 3
        for outputs, rate in zip(spec.channels, spec.dropout, strict=True):
            layers += [nn.Conv2d(inputs, outputs, KERNEL, padding=1), nn.ReLU(), nn.Conv2d(outputs, outputs, KERNEL)]
            layers += [nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(rate)]
            inputs = outputs
        layers += [nn.Flatten(), nn.Linear(spec.features, spec.hidden), nn.ReLU(), nn.Dropout(spec.hidden_dropout)]
        self.layers = nn.Sequential(*layers, nn.Linear(spec.hidden, CLASSES))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers((images.permute(0, 3, 1, 2).float() - self.mean) / self.deviation)


class Lstm(nn.Module):
    """Tokens (batch, length) to logits (batch,)."""

    def __init__(self, spec: LstmSpec) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, spec.embedding)
        self.lstm = nn.LSTM(spec.embedding, spec.units, batch_first=True)
        self.logits = nn.Linear(spec.units, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        outputs, _ = self.lstm(self.embedding(tokens))
        return self.logits(outputs[:, -1]).squeeze(1)


class Encoder(nn.Module):
    """Tokens (batch, length) to logits (batch,): the mean of the words after blocks of attention."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, spec.width), nn.Embedding(spec.positions, spec.width)
        self.dropout = nn.Dropout(spec.dropout)
        self.blocks = nn.ModuleList(EncoderBlock(spec) for _ in range(spec.layers))
        self.norm, self.logits = nn.LayerNorm(spec.width), nn.Linear(spec.width, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = F.pad(tokens, (0, len(self.positions.weight) - tokens.shape[1]), value=PADDING)
        there = tokens != PADDING
        x = self.dropout(self.words(tokens) + self.positions.weight)
        for block in self.blocks:
            x = block(x, there[:, None, None])
        weights = there[:, :, None].to(x.dtype)
        return self.logits((self.norm(x) * weights).sum(1) / weights.sum(1)).squeeze(1)


class EncoderBlock(nn.Module):
    """Attention and two dense layers, each after a normalisation and added to ``x`` (batch, length, width)."""

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.heads, self.dropout = spec.heads, nn.Dropout(spec.dropout)
        self.norm1, self.norm2 = nn.LayerNorm(spec.width), nn.LayerNorm(spec.width)
        self.attention = nn.Linear(spec.width, 3 * spec.width, bias=False)
        self.projection = nn.Linear(spec.width, spec.width)
        self.hidden, self.output = nn.Linear(spec.width, spec.hidden), nn.Linear(spec.hidden, spec.width)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.norm1(x)).split(width, 2)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(query, key, value, there)
        x = x + self.dropout(self.projection(attended.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.output(F.gelu(self.hidden(self.norm2(x)))))


class Gpt(nn.Module):
    """Tokens (batch, n) to the logits of the word after each, (batch, n, vocabulary); of the last with ``last``.

    ``caches`` hold each block's keys and values of the words before, and get those of these.
    """

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, spec.width), nn.Embedding(spec.length, spec.width)
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = nn.LayerNorm(spec.width, EPSILON, bias=False)

    def forward(self, tokens: Tensor, last: bool = False, caches: list[list[Tensor]] | None = None) -> Tensor:
        begin = caches[0][0].shape[2] if caches and caches[0] else 0
        x = self.words(tokens) + self.positions.weight[begin : begin + tokens.shape[1]]
        for number, block in enumerate(self.blocks):
            x = block(x, caches[number] if caches else None)
        return F.linear(self.norm(x[:, -1] if last else x), self.words.weight)


class Block(nn.Module):
    """Causal attention and two dense layers, each after a normalisation and added to ``x`` (batch, n, width)."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        self.heads = spec.heads
        self.norm1, self.norm2 = (nn.LayerNorm(spec.width, EPSILON, bias=False) for _ in range(2))
        self.attention = nn.Linear(spec.width, 3 * spec.width, bias=False)
        self.projection = nn.Linear(spec.width, spec.width, bias=False)
        self.hidden = nn.Linear(spec.width, spec.hidden, bias=False)
        self.output = nn.Linear(spec.hidden, spec.width, bias=False)

    def forward(self, x: Tensor, cache: list[Tensor] | None) -> Tensor:
        batch, count, width = x.shape
        parts = self.attention(self.norm1(x)).split(width, 2)
        query, key, value = (part.view(batch, count, self.heads, -1).transpose(1, 2) for part in parts)
        if cache is not None:
            if cache:
                key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
            cache[:] = key, value
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=count > 1)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, count, width))
        return x + self.output(F.gelu(self.hidden(self.norm2(x))))


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
