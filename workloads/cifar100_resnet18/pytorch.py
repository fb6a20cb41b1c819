"""`cifar100_resnet18` in PyTorch: channels-last memory, or channels-first where asked for, `nn.BatchNorm2d`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.checkpointing.pytorch import recompute
from workloads.cifar100_cnn.spec import DEVIATION, MEAN
from workloads.cifar100_resnet18.spec import CLASSES, EPSILON, MOMENTUM, Convolution, ResNetSpec
from workloads.data.dataset import Array
from workloads.spec import Numbers


class Normalised(nn.Module):
    """A convolution and the batch normalisation after it."""

    def __init__(self, c: Convolution, dtype: torch.dtype) -> None:
        super().__init__()
        self.name = c.name
        self.convolution = nn.Conv2d(
            c.inputs, c.outputs, c.kernel, c.stride, padding=c.kernel // 2, bias=False, dtype=dtype
        )
        self.normalisation = nn.BatchNorm2d(c.outputs, eps=EPSILON, momentum=MOMENTUM, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.normalisation(self.convolution(x))


class Block(nn.Module):
    """Two normalised convolutions beside a shortcut."""

    def __init__(self, convolutions: list[Convolution], dtype: torch.dtype) -> None:
        super().__init__()
        self.first, self.second, *rest = (Normalised(c, dtype) for c in convolutions)
        self.shortcut = rest[0] if rest else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class ResNet(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    def __init__(
        self, spec: ResNetSpec, dtype: torch.dtype, checkpointing: bool = False, channels_first: bool = False
    ) -> None:  # fmt: skip
        super().__init__()
        self.channels_first = channels_first
        self.register_buffer("mean", torch.tensor(MEAN, dtype=dtype).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(DEVIATION, dtype=dtype).view(1, 3, 1, 1), persistent=False)
        self.stem = Normalised(spec.stem, dtype)
        self.blocks = nn.Sequential(*(Block(block, dtype) for block in spec.blocks))
        self.checkpointed = [recompute(block, draws=False) for block in self.blocks] if checkpointing else []
        self.logits = nn.Linear(spec.channels[-1], CLASSES, dtype=dtype)

    def forward(self, images: Tensor) -> Tensor:
        images = images.permute(0, 3, 1, 2)
        x = ((images.contiguous() if self.channels_first else images) - self.mean) / self.deviation
        x = F.relu(self.stem(x))
        for block in self.checkpointed or [self.blocks]:
            x = block(x)
        return self.logits(x.mean((2, 3)))


def build(
    spec: ResNetSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False, channels_first: bool = False,
) -> ResNet:  # fmt: skip
    """The model in training mode, its weights not yet set; it has no dropout to switch off."""
    model = ResNet(spec, getattr(torch, numbers.weights), checkpointing, channels_first)
    memory_format = torch.contiguous_format if channels_first else torch.channels_last
    return model.to(device=device, memory_format=memory_format)


def loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Softmax cross entropy of uint8 images (b, 32, 32, 3) and int32 labels (b,), averaged over the batch."""
    return F.cross_entropy(model(images), labels.long())


def scores(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,); of a model in evaluation."""
    logits, labels = model(images), labels.long()
    return F.cross_entropy(logits, labels, reduction="none"), logits.argmax(1) == labels


def kernels(spec: ResNetSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice."""
    return {}


def import_weights(model: ResNet, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    with torch.no_grad():
        for name, (parameter, layout) in _tensors(model).items():
            parameter.copy_(torch.from_numpy(weights[name].transpose(layout)))


def export_weights(model: ResNet, of: str = "data") -> dict[str, Array]:
    """A copy of every tensor (or, with ``of="grad"``, of its gradient) in canonical layout, on the host."""
    exported = {}
    for name, (parameter, layout) in _tensors(model).items():
        array = getattr(parameter, of).detach().cpu().numpy()
        exported[name] = array.transpose([layout.index(axis) for axis in range(array.ndim)]).copy()
    return exported


def _tensors(model: ResNet) -> dict[str, tuple[nn.Parameter, list[int]]]:
    """Canonical name to parameter, and the canonical axes in the parameter's order."""
    tensors: dict[str, tuple[nn.Parameter, list[int]]] = {}
    for layer in model.modules():
        if isinstance(layer, Normalised):
            tensors[f"{layer.name}/kernel"] = (layer.convolution.weight, [3, 2, 0, 1])
            tensors[f"{layer.name}/scale"] = (layer.normalisation.weight, [0])
            tensors[f"{layer.name}/shift"] = (layer.normalisation.bias, [0])
    tensors["logits/kernel"] = (model.logits.weight, [1, 0])
    tensors["logits/bias"] = (model.logits.bias, [0])
    return tensors
